"""A job on Ray whose actor is killed midway, and an index of what it made; in its own process."""

import json
import sys
from pathlib import Path

from tertium.corpus import Index
from tertium.corpus.inputs import read_vectors
from tertium.jobs.request import Execution
from tests.jobs.stubs import FAST, contents, job, load, stub_model


def main(root: Path) -> None:
    model = stub_model(root / "model")
    texts = root / "texts.txt"
    rows = [f"text {at}" for at in range(40)]
    texts.write_text("\n".join([*rows[:20], "crash", *rows[20:]]) + "\n")
    crash = root / "crashed"
    ray = Execution(workers=2, cluster="ray")
    finished = job(texts, root / "ray", model=model, crash=str(crash), execution=ray)
    killed = crash.exists()
    job(texts, root / "local", model=model, crash=str(crash), execution=FAST)
    stub = load(str(model))
    rows = texts.read_text().splitlines()
    vectors = read_vectors(root / "ray", texts=rows)
    index = Index.build(root / "index", rows, stub, vectors=vectors, progress=False)
    found = {
        "killed": killed,
        "rows": finished.rows,
        "shards": finished.made,
        "same": contents(root / "ray") == contents(root / "local"),
        "found": index.search("text 7", top_k=1)[0].text,
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
