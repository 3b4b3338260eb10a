"""Pairs a second of a published cross-encoder by engine, against ``CrossEncoder.predict``.

OMP_NUM_THREADS=1 python benchmarks/cross_engines.py

The cross-encoder is the embedded MiniLM with a classifier of fresh weights (seed 0), saved by
sentence-transformers: speed does not depend on what a classifier has learned. Rates are by
processor time, so that other work on the machine counts little.
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from common import data_folder, publish
from sentence_transformers import CrossEncoder

import tertium
from tertium.data import benchmarks
from tertium.models.embedded import default_folder

PAIRS, ROUNDS = 400, 3
ENGINES = ("torch", "onnx", "onnx-int8")


def main() -> None:
    """All ways in turn, the best of a few rounds of each."""
    torch.manual_seed(0)
    rows = benchmarks.load("STS-B", folder=data_folder(), split="dev").rows
    pairs = [(row.sentence1, row.sentence2) for row in rows[:PAIRS]]
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place) / "cross"
        CrossEncoder(str(default_folder()), num_labels=1, device="cpu").save(str(folder))
        theirs = CrossEncoder(str(folder), device="cpu")
        ways: dict[str, Callable[[], np.ndarray]] = {
            "sentence-transformers": lambda: theirs.predict(pairs, show_progress_bar=False)
        }
        for engine in ENGINES:
            model = tertium.load(folder, engine=engine)
            ways[f"tertium, {engine}"] = lambda model=model: model.score(pairs, progress=False)
        expected = ways["sentence-transformers"]()
        best = dict.fromkeys(ways, float("inf"))
        apart = {}
        for _ in range(ROUNDS):
            for name, run in ways.items():
                start = time.process_time()
                found = run()
                best[name] = min(best[name], time.process_time() - start)
                apart[name] = float(np.abs(found - expected).max())
    base = best["sentence-transformers"]
    table = [
        [name, f"{PAIRS / seconds:.0f}", f"{base / seconds:.2f}", f"{apart[name]:.1e}"]
        for name, seconds in best.items()
    ]
    title = f"A published cross-encoder, {PAIRS} pairs of STS-B, processor time"
    head = ["way", "pairs/s of processor time", "ratio", "largest difference of a score"]
    publish("cross_engines", title, head, table)


if __name__ == "__main__":
    main()
