"""Unit vectors in memory or in files, taken in blocks, and how texts become them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.models.base import Embedder
from tertium.models.passages import cut_long
from tertium.models.vectors import embedded_windows
from tertium.progress import bar

__all__ = [
    "Matrix",
    "Positions",
    "Rows",
    "Scores",
    "Source",
    "cosines",
    "distinct_rows",
    "embed",
    "embed_into",
    "embed_whole",
    "store_into",
    "unit",
]

Matrix = NDArray[np.float32]
Positions = NDArray[np.int64]
Scores = NDArray[np.float64]
Source = Embedder | NDArray[Any]  # a model, or the vectors that it made: row i belongs to text i

_PICK = 512  # vectors that are picked out at once, few enough to stay in a cache
_WINDOW = 4096
_PROBES = 8  # stored vectors that are compared with new ones
_LIKE = 0.9  # engines and precisions differ by less, models by more


def unit(rows: NDArray[Any]) -> Matrix:
    """Every row at length 1; a row of zeros stays one, and is like no other.

    >>> unit(np.array([[3, 4], [0, 0]], np.int8)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    found = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(lengths > 0, lengths, 1), np.float32)


class Rows:
    """Vectors of length 1 behind one or more arrays, mapped files among them.

    Args:
        parts: matrices of one width and of any number type, one after another.
        normalised: the rows of float32 parts have length 1 already and are given as they are.
    """

    def __init__(self, parts: Sequence[NDArray[Any]], *, normalised: bool = False) -> None:
        self._parts = tuple(parts)
        self._normalised = normalised
        self._starts = np.cumsum([0, *(len(part) for part in parts)])
        self.dimension = int(parts[0].shape[1])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def head(self, count: int) -> "Rows":
        """The first ``count`` rows."""
        pieces = zip(self._parts, self._starts[:-1].tolist(), strict=True)
        parts = [part[: count - first] for part, first in pieces if first < count]
        return Rows(parts or [self._parts[0][:0]], normalised=self._normalised)

    def block(self, start: int, stop: int) -> Matrix:
        """Rows from ``start`` to ``stop``, as far as there are any."""
        pieces = [
            self._unit(part[max(start - first, 0) : max(stop - first, 0)])
            for part, first in zip(self._parts, self._starts[:-1].tolist(), strict=True)
            if first < stop and first + len(part) > start
        ]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces or [np.empty((0, self.dimension), np.float32)])

    def blocks(self, size: int) -> Iterator[tuple[int, Matrix]]:
        """All rows in blocks, each with the position of its first."""
        for start in range(0, len(self), size):
            yield start, self.block(start, start + size)

    def take(self, positions: Positions) -> Matrix:
        """Rows at ``positions``, in that order."""
        if len(self._parts) == 1:
            return self._unit(self._parts[0][positions])
        found = np.empty((len(positions), self.dimension), np.float32)
        homes = np.searchsorted(self._starts, positions, side="right") - 1
        for home in np.unique(homes).tolist():
            here = homes == home
            found[here] = self._unit(self._parts[home][positions[here] - self._starts[home]])
        return found

    def similarity(self, first: Positions, second: Positions) -> Scores:
        """Cosine of each pair of rows, the same to the last bit however the rows are cut."""
        found = [
            cosines(self.take(first[at : at + _PICK]), self.take(second[at : at + _PICK]))
            for at in range(0, len(first), _PICK)
        ]
        return np.concatenate(found) if found else np.empty(0)

    def _unit(self, rows: NDArray[Any]) -> Matrix:
        return rows if self._normalised and rows.dtype == np.float32 else unit(rows)


def cosines(first: Matrix, second: Matrix) -> Scores:
    """Inner product of each pair of unit rows, summed in double precision."""
    products = np.einsum("...d,...d->...", first.astype(np.float64), second.astype(np.float64))
    return np.asarray(np.clip(products, -1.0, 1.0))


def embed(
    model: Embedder,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    progress: bool | None = None,
) -> Matrix:
    """One unit vector a text; ``prompt`` is put before each (default: that of the model)."""
    found = np.empty((len(texts), model.dimension), np.float32)
    embed_into(found, model, texts, total=len(texts), prompt=prompt, progress=progress)
    return found


def embed_whole(model: Embedder, texts: Sequence[str], *, progress: bool | None = None) -> Matrix:
    """One unit vector a text; of a text that is longer than the model reads, by all its passages.

    It is the mean of the passages' unit vectors, at length 1.
    """
    spans = cut_long(model, texts)
    if not any(spans):
        return embed(model, texts, progress=progress)
    parts = [
        text[start:stop]
        for text, cuts in zip(texts, spans, strict=True)
        for start, stop in (cuts or [(0, len(text))])
    ]
    counts = [max(len(cuts), 1) for cuts in spans]
    vectors = embed(model, parts, progress=progress)
    starts = np.cumsum([0, *counts[:-1]])
    return unit(np.add.reduceat(vectors, starts, axis=0))


def embed_into(
    matrix: Matrix,
    model: Embedder,
    texts: Iterable[str],
    *,
    total: int,
    prompt: str | None = None,
    progress: bool | None = None,
) -> None:
    """Write one unit vector a text into ``matrix``, which may be a mapped file."""
    start = 0
    with bar(total=total, label="encoding", unit="text", show=progress) as shown:
        for rows in embedded_windows(model, texts, window=_WINDOW, prompt=prompt):
            matrix[start : start + len(rows)] = unit(rows)
            start += len(rows)
            shown.update(len(rows))


def store_into(
    matrix: Matrix,
    model: Embedder,
    texts: Iterable[str],
    vectors: NDArray[Any],
    *,
    prompt: str | None = None,
) -> None:
    """Write stored vectors at length 1 into ``matrix``; some are encoded again, to be sure of them.

    Args:
        matrix: one row a text.
        model: is said to have made the vectors.
        texts: what they were made of.
        vectors: row i belongs to text i.
        prompt: was put before each text (default: that of the model).
    """
    if vectors.shape != matrix.shape:
        raise TertiumError(
            f"Vectors of shape {vectors.shape} do not fit {matrix.shape[0]:,} texts and a model "
            f"of width {matrix.shape[1]}. Encode the same texts with the same model."
        )
    for start in range(0, len(vectors), _WINDOW):
        matrix[start : start + _WINDOW] = _finite(unit(vectors[start : start + _WINDOW]), start)
    some = list(itertools.islice(texts, _PROBES))
    made = embed(model, some, prompt=prompt, progress=False)
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
        return Rows([embed_whole(source, chosen, progress=progress)], normalised=True)
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
