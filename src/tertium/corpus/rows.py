"""Unit vectors in memory or in files, taken in blocks: what is searched, mined and cleaned."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.formats import check_stored_vectors
from tertium.errors import TertiumError
from tertium.jobs.read import iter_texts
from tertium.jobs.read import read_vectors as read_shards
from tertium.models.encoder import valid_text

__all__ = ["Matrix", "Positions", "Rows", "Scores", "read_vectors", "unit"]

Matrix = NDArray[np.float32]
Positions = NDArray[np.int64]
Scores = NDArray[np.float64]

_PICK = 512  # vectors that are picked out at once, few enough to stay in a cache


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


def read_vectors(path: Path, *, texts: Iterable[str] | None = None) -> NDArray[Any]:
    """Vectors as ``tertium encode`` writes them: a .npy file, which is mapped, or a folder.

    Args:
        path: the file, or the folder of shards.
        texts: what they must have been made of, row by row: a folder holds its texts, which are
            compared. A file of another number of rows is refused, if ``texts`` has a length.
    """
    found = read_shards(path) if path.is_dir() else _read_file(path)
    if isinstance(texts, Sized) and len(found) != len(texts):
        raise TertiumError(
            f"{path} holds {len(found):,} vectors for {len(texts):,} texts: row i must belong to "
            "text i. Encode the same file again."
        )
    if path.is_dir() and texts is not None:
        _check_texts(path, texts)
    return found


def _check_texts(folder: Path, texts: Iterable[str]) -> None:
    """Raise at the first text that is another one in ``folder``, as far as both go."""
    for row, (stored, text) in enumerate(zip(iter_texts(folder), texts, strict=False), 1):
        if stored != valid_text(text):
            raise TertiumError(
                f"{folder}: vector {row:,} is that of {stored[:60]!r}, and text {row:,} is "
                f"{text[:60]!r}: row i must belong to text i. Encode the same file again."
            )


def _read_file(path: Path) -> NDArray[Any]:
    check_stored_vectors(path)
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise TertiumError(f"{path} is no readable .npy file ({error}). Encode again.") from error
    if found.ndim != 2 or found.dtype.kind not in "fi":
        raise TertiumError(
            f"{path} holds {found.dtype} of shape {found.shape}, not a matrix of vectors."
        )
    return found
