"""Jobs that are killed at random moments and begun again; a process of its own, that may fork.

Prints, as JSON, how many shards each kill left, and whether the end was the same.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.jobs.stubs import contents, job, stub_model

TRIALS = 10
ROWS = 120


def main(root: Path) -> None:
    model = stub_model(root / "model")
    texts = root / "texts.txt"
    texts.write_text("".join(f"text {at % 50}\n" for at in range(ROWS)))
    _wait(_begin(texts, root / "whole", model))
    whole = contents(root / "whole")
    shards = len(whole) - 2
    chance = random.Random(0)
    results = []
    for trial in range(TRIALS):
        folder = root / str(trial)
        left = []
        for _ in range(2):  # the second kill meets a job that was resumed
            process = _begin(texts, folder, model)
            wanted = chance.randrange(shards - 8)
            while len(list(folder.glob("part-*"))) < wanted:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.02))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            left.append(len(list(folder.glob("part-*"))))
        _wait(_begin(texts, folder, model))
        results.append({"left": left, "same": contents(folder) == whole})
    sys.stdout.write(json.dumps({"shards": shards, "trials": results}))


def _begin(texts: Path, folder: Path, model: Path) -> int:
    process = os.fork()
    if process:
        return process
    try:
        job(texts, folder, model=model, delay=0.02)
    except BaseException as error:
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def _wait(process: int) -> None:
    _, status = os.waitpid(process, 0)
    if status:
        raise SystemExit(f"a job ended with {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
