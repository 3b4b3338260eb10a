"""A first pass over very many texts: pairs that share many runs of characters (MinHash, LSH).

Only these are encoded and compared. What says the same in other words is not found this way:
``benchmarks/minhash.py`` measures how much of what an exact search finds is among the candidates.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Positions
from tertium.errors import require
from tertium.files import new_matrix
from tertium.progress import track

__all__ = ["minhash_pairs"]

_SHINGLE = 5  # characters
_BANDS, _WIDTH = 32, 4  # two texts with a Jaccard index of 0.5 meet with a probability of 0.87
_SEED = 42
_BEFORE = 32  # of the texts before it in its bucket that each one is compared with
_MIX = np.uint64(0x9E3779B97F4A7C15)


def minhash_pairs(
    texts: Sequence[str], *, progress: bool | None = None
) -> tuple[Positions, Positions]:
    """Rows ``first < second`` of texts that share many runs of five characters, each pair once.

    Args:
        texts: any number; 256 bytes of each are kept in a temporary file.
        progress: False for no progress on standard error.
    """
    require("minhash", purpose="The MinHash pass")
    if len(texts) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    with tempfile.TemporaryDirectory(prefix="tertium-minhash-") as folder:
        bands = new_matrix(Path(folder) / "bands.npy", np.uint64, (_BANDS, len(texts)))
        for row, text in enumerate(track(texts, label="minhash", unit="text", show=progress)):
            bands[:, row] = _signature(text)
        found = np.unique(
            np.concatenate([_meetings(np.asarray(band), len(texts)) for band in bands])
        )
    first, second = np.divmod(found, len(texts))
    return first, second


def _signature(text: str) -> NDArray[np.uint64]:
    """One number for each band."""
    from rensa import RMinHash

    plain = " ".join(text.lower().split())
    shingles = {plain[at : at + _SHINGLE] for at in range(max(len(plain) - _SHINGLE + 1, 1))}
    minhash = RMinHash(_BANDS * _WIDTH, _SEED)
    minhash.update([shingle.encode("utf-8", "surrogatepass") for shingle in shingles])
    values = np.asarray(minhash.digest(), np.uint64).reshape(_BANDS, _WIDTH)
    found = np.zeros(_BANDS, np.uint64)
    for at in range(_WIDTH):
        found = (found ^ values[:, at]) * _MIX
        found ^= found >> np.uint64(29)
    return found


def _meetings(band: NDArray[np.uint64], count: int) -> Positions:
    """Pairs of rows with the same number, as one number each.

    Every row meets the first one of its bucket, however many there are, since that one is kept.
    """
    order = np.argsort(band, kind="stable")
    ordered = band[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=~ordered[0]))
    heads = np.repeat(starts, np.diff(starts, append=count))
    later = np.flatnonzero(heads != np.arange(count))
    parts = [order[heads[later]].astype(np.int64) * count + order[later]]
    for step in range(1, _BEFORE + 1):
        same = np.flatnonzero(ordered[step:] == ordered[:-step])
        if not len(same):
            break
        parts.append(order[same].astype(np.int64) * count + order[same + step])
    return np.concatenate(parts)
