"""Predictions for C-STS's test set, whose labels are hidden: the file that its authors ask for."""

import json
from pathlib import Path

from tertium.data import benchmarks
from tertium.errors import TertiumError
from tertium.evaluation.context import Memory
from tertium.files import atomic_path
from tertium.types import Embedder, TripleScorer

__all__ = ["write_predictions"]


def write_predictions(
    model: Embedder | TripleScorer, path: Path, *, folder: Path | None, progress: bool | None = None
) -> int:
    """Score C-STS's test part into ``{"0": 1.0, "1": 3.2, …}`` and return how many there are.

    Keys are the rows' places in the file, from 0. A model without conditions gives the sentences'
    cosine, moved to the labels' scale: 1 for a cosine of 0 or less, 5 for a cosine of 1.

    Args:
        model: scores triples, or encodes texts.
        path: a ``.json`` file.
        folder: benchmark folder.
        progress: False for no progress on standard error.
    """
    if path.suffix.lower() != ".json":
        raise TertiumError(f"{path}: predictions go to a .json file.")
    data = benchmarks.load("C-STS", split="test", folder=folder)
    triples = [(row.sentence1, row.sentence2, row.condition) for row in data.rows]
    found = Memory(model, progress=progress).similarities(triples)
    if isinstance(model, Embedder):
        found = 1 + 4 * found.clip(0, 1)
    predictions = {str(at): round(float(score), 6) for at, score in enumerate(found)}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(predictions) + "\n", encoding="utf-8")
    return len(predictions)
