"""A job on Ray whose actor is killed midway; a process of its own, for Ray begins many."""

import json
import sys
from pathlib import Path

from tertium.jobs.request import Execution
from tests.jobs.stubs import FAST, contents, job, stub_model


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
    found = {
        "killed": killed,
        "rows": finished.rows,
        "shards": finished.made,
        "same": contents(root / "ray") == contents(root / "local"),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
