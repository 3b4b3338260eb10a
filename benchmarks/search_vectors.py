"""Vectors to search, an encoder that hands them out, and a clock."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tertium.corpus.rows import unit
from tertium.models.base import Embedder

K = 10
Published = tuple[str, list[str], list[list[str]]]  # title, header, rows


class Table(Embedder):
    """An encoder whose text ``i`` has row i of a matrix: only the machinery is left."""

    name = "table"
    dimension = 0

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.dimension = vectors.shape[1]

    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        """Rows by their numbers."""
        return self.vectors[[int(text) for text in texts]]


def drawn(n: int, width: int, *, kind: str, seed: int = 0) -> np.ndarray:
    """Unit vectors: in groups of about twenty with cosines around 0.8, or all over the sphere.

    Those in groups spread along their directions as sentences do under the embedded model, where 64
    of 384 hold 60 % of the variance; those all over the sphere are the worst case of everything.
    """
    generator = np.random.default_rng(seed)
    found = generator.standard_normal((n, width), np.float32)
    if kind == "clustered":
        spread = np.exp(-np.arange(width) / (0.39 * width)).astype(np.float32)
        centres = unit(spread * generator.standard_normal((max(n // 20, 1), width), np.float32))
        found *= 0.5 * spread / np.linalg.norm(spread)
        for start in range(0, n, 8192):
            some = found[start : start + 8192]
            some += centres[generator.integers(0, len(centres), len(some))]
    for start in range(0, n, 8192):
        found[start : start + 8192] = unit(found[start : start + 8192])
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call took, and what it gave."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found
