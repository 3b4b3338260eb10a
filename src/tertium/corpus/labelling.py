"""Which pairs to label next."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import unit
from tertium.errors import TertiumError
from tertium.evaluation.metrics import ranks
from tertium.models.base import Embedder, Model

__all__ = ["propose"]

Pair = tuple[str, str]
Vector = NDArray[np.float64]
_BINS = 10  # of equal width between the lowest and the highest score
_SHORTLIST = 50  # candidates of a bin that are compared at a time


def propose(
    pairs: Sequence[Pair],
    model: Model,
    *,
    count: int,
    second: Model | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> list[Pair]:
    """Pairs to label, in the order in which they should be: the first n of more are the same.

    Bins of the score take turns, so that all of its range is seen. Within a bin, the pair is taken
    on which the models disagree most, by the difference of its ranks, and that is least like
    those taken before, by the vectors of its texts.

    Args:
        pairs: candidates.
        model: scores them.
        count: how many to propose.
        second: another model; without one, only range and diversity count.
        seed: decides between equals.
        progress: False for no progress on standard error.
    """
    items = [*dict.fromkeys(pairs)]
    items.sort(key=lambda pair: hashlib.sha256(f"{seed} {pair}".encode()).hexdigest())
    if not items:
        raise TertiumError("There are no pairs to label.")
    scores = np.asarray(model.score(items, progress=progress), np.float64)
    apart = np.zeros(len(items))
    if second is not None:
        others = np.asarray(second.score(items, progress=progress), np.float64)
        apart = np.abs(ranks(scores) - ranks(others)) / len(items)
    vectors = _vectors(items, model, progress=progress)
    span = float(np.ptp(scores)) or 1.0
    place = np.clip(((scores - scores.min()) / span * _BINS).astype(int), 0, _BINS - 1)
    bins = [np.flatnonzero(place == at).tolist() for at in range(_BINS)]
    bins = [sorted(rows, key=lambda row: -apart[row]) for rows in bins]
    nearest = np.full(len(items), -1.0)
    chosen: list[int] = []
    while len(chosen) < min(count, len(items)):
        for rows in bins:
            if not rows or len(chosen) == count:
                continue
            short = rows[:_SHORTLIST]
            gain = apart[short] + (0 if vectors is None else (1 - nearest[short]) / 2)
            best = short[int(np.argmax(gain))]
            rows.remove(best)
            chosen.append(best)
            if vectors is not None:
                nearest = np.maximum(nearest, vectors @ vectors[best])
    return [items[at] for at in chosen]


def _vectors(items: list[Pair], model: Model, *, progress: bool | None) -> NDArray[Any] | None:
    """A vector of length 1 for each pair: the sum of its texts'."""
    if not isinstance(model, Embedder):
        return None
    rows = np.asarray(model.encode([text for pair in items for text in pair], progress=progress))
    return unit(unit(rows[0::2]) + unit(rows[1::2]))
