"""A graph's first run on a machine, in a process of its own: what dies here dies alone.

Run by its path, as ``first_run.py RUNTIME GRAPH FOLDER``: torch and tertium are not loaded, so that
it takes a second. The folder holds the batches; what became of them is written there.
"""

import json
import runpy
import sys
from pathlib import Path

import numpy as np


def main(runtime: str, graph: str, folder: Path) -> None:
    """Run every batch, and write the reply."""
    here = Path(__file__)
    try:
        runtimes = runpy.run_path(str(here.with_name("runtimes.py")))["RUNTIMES"]
        engine = runtimes[runtime](runtime, Path(graph), threads=1)
        for path in sorted(folder.glob("*.npz")):
            with np.load(path) as batch:
                engine.run(dict(batch))
        reply: dict[str, object] = {"runs": True}
    except Exception as error:  # ONNX Runtime and OpenVINO have kinds of their own
        lines = str(error).strip().splitlines()
        reply = {"error": lines[0][:200] if lines else type(error).__name__}
    (folder / "reply.json").write_text(json.dumps(reply), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
