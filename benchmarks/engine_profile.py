"""Where the time of a batch goes in ONNX Runtime, in float and in int8.

python benchmarks/engine_profile.py
python benchmarks/engine_profile.py --model turbo      # a table of its own

Shows how far int8 can help on a processor: only its products get faster.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from common import publish

import tertium
from tertium.engines.export import export
from tertium.engines.runtimes import GRAPH, session

ENGINES = ("onnx", "onnx-int8")
SHAPES = ((1, 12), (64, 16), (8, 128))  # texts and tokens of a batch
RUNS = 20
SHOWN = 6


def main() -> None:
    """Profile both graphs over batches of short and of long texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default", help="name or folder")
    options = parser.parse_args()
    model = tertium.load(options.model)
    rows = []
    for engine in ENGINES:
        (part,) = export(model, engine)
        for shape in SHAPES:
            rows += _rows(engine, shape, profile(part.folder / GRAPH, shape))
    header = ["engine", "batch", "node", "ms", "share"]
    name = "engine_profile" if options.model == "default" else f"engine_profile_{model.name}"
    publish(name, f"Nodes of a batch of {model.name}, mean of {RUNS} runs", header, rows)


def profile(graph: Path, shape: tuple[int, int]) -> Counter[str]:
    """Milliseconds of each kind of node in one run."""
    batch = {
        "input_ids": np.random.default_rng(0).integers(1000, 2000, shape),
        "attention_mask": np.ones(shape, np.int64),
    }
    with tempfile.TemporaryDirectory() as folder:
        running = session(graph, threads=2, profile=f"{folder}/profile")
        for _ in range(RUNS):
            running.run(None, batch)
        events = json.loads(Path(running.end_profiling()).read_text())
    found: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time"):
            found[event["args"]["op_name"]] += event["dur"] / 1000 / RUNS
    return found


def _rows(engine: str, shape: tuple[int, int], found: Counter[str]) -> list[list[str]]:
    total = found.total()
    batch = f"{shape[0]} texts of {shape[1]} tokens"
    return [
        [engine, batch, name, f"{spent:.1f}", f"{100 * spent / total:.0f} %"]
        for name, spent in [*found.most_common(SHOWN), ("all", total)]
    ]


if __name__ == "__main__":
    main()
