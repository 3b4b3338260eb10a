"""Texts to unit vectors, window by window."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Matrix, Rows, unit
from tertium.corpus.vectors import embedded_windows
from tertium.errors import TertiumError
from tertium.progress import bar
from tertium.types import Embedder

__all__ = ["Source", "distinct_rows", "embed", "embed_into", "store_into"]

Source = Embedder | NDArray[Any]  # a model, or the vectors that it made: row i belongs to text i

_WINDOW = 4096
_PROBES = 8  # stored vectors that are made again
_LIKE = 0.9  # engines and precisions differ by less, models by more


def embed(model: Embedder, texts: Sequence[str], *, progress: bool | None = None) -> Matrix:
    """One unit vector a text."""
    found = np.empty((len(texts), model.dimension), np.float32)
    embed_into(found, model, texts, total=len(texts), progress=progress)
    return found


def embed_into(
    matrix: Matrix,
    model: Embedder,
    texts: Iterable[str],
    *,
    total: int,
    progress: bool | None = None,
) -> None:
    """Write one unit vector a text into ``matrix``, which may be a mapped file."""
    start = 0
    with bar(total=total, label="encoding", unit="text", show=progress) as shown:
        for rows in embedded_windows(model, texts, window=_WINDOW):
            matrix[start : start + len(rows)] = unit(rows)
            start += len(rows)
            shown.update(len(rows))


def store_into(
    matrix: Matrix, model: Embedder, texts: Iterable[str], vectors: NDArray[Any]
) -> None:
    """Write stored vectors at length 1 into ``matrix``; some are made again, to be sure of them.

    Args:
        matrix: one row a text.
        model: is said to have made the vectors.
        texts: what they were made of.
        vectors: row i belongs to text i.
    """
    if vectors.shape != matrix.shape:
        raise TertiumError(
            f"Vectors of shape {vectors.shape} do not fit {matrix.shape[0]:,} texts and a model "
            f"of width {matrix.shape[1]}. Encode the same texts with the same model."
        )
    for start in range(0, len(vectors), _WINDOW):
        matrix[start : start + _WINDOW] = _finite(unit(vectors[start : start + _WINDOW]), start)
    some = list(itertools.islice(texts, _PROBES))
    made = embed(model, some, progress=False)
    likeness = np.einsum("nd,nd->n", made, matrix[: len(some)])
    if likeness.min() < _LIKE:
        row = int(likeness.argmin())
        raise TertiumError(
            f"Vector {row + 1} has a cosine of {likeness[row]:.2f} with what {model.name} makes of "
            f"{some[row][:60]!r}: it was made by another model, or of another text."
        )


def distinct_rows(
    texts: Sequence[str], source: Source, rows: Sequence[int], *, progress: bool | None = None
) -> Rows:
    """Unit vectors of the texts at ``rows``.

    Args:
        texts: all texts.
        source: a model, which then reads these texts only, or the vectors of all texts.
        rows: which texts, in ascending order.
        progress: False for no progress on standard error.
    """
    if not isinstance(source, np.ndarray):
        chosen = texts if len(rows) == len(texts) else [texts[row] for row in rows]
        return Rows([embed(source, chosen, progress=progress)], normalised=True)
    if source.ndim != 2 or len(source) != len(texts):
        raise TertiumError(
            f"Vectors of shape {source.shape} do not fit {len(texts):,} texts: row i must belong "
            "to text i."
        )
    everything = Rows([source])
    found = np.empty((len(rows), everything.dimension), np.float32)
    positions = np.asarray(rows, np.int64)
    for start in range(0, len(rows), _WINDOW):
        found[start : start + _WINDOW] = everything.take(positions[start : start + _WINDOW])
    return Rows([_finite(found, 0)], normalised=True)


def _finite(rows: Matrix, start: int) -> Matrix:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise TertiumError(f"Vector {start + int(np.argmin(finite)) + 1} is not finite.")
    return rows
