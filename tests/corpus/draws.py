"""Vectors to search: with and without neighbourhoods."""

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Rows, unit


def clustered(
    n: int, *, width: int = 16, around: int = 10, spread: float = 0.5, seed: int = 0
) -> NDArray[np.float32]:
    """Unit vectors, about ``around`` of them near each of some centres."""
    generator = np.random.default_rng(seed)
    centres = unit(generator.standard_normal((max(n // around, 1), width)))
    noise = spread * generator.standard_normal((n, width)) / np.sqrt(width)
    return unit(centres[generator.integers(0, len(centres), n)] + noise)


def rows(vectors: NDArray[np.float32]) -> Rows:
    return Rows([vectors], normalised=True)


def all_cosines(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return np.clip(wide @ wide.T, -1, 1)
