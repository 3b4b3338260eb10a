"""Which pairs to label next."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import unit
from tertium.errors import TertiumError, require
from tertium.evaluation.metrics import ranks
from tertium.models.base import Embedder, Model
from tertium.models.tokens import TokenizationStats, chunks
from tertium.progress import track

__all__ = ["propose"]

Pair = tuple[str, str]
Vector = NDArray[np.float64]
_BINS = 10  # of equal width between the lowest and the highest score
_SHORTLIST = 50  # candidates of a bin that are compared at a time
_PASSES, _BATCH = 8, 64  # with dropout


def propose(
    pairs: Sequence[Pair],
    model: Model,
    *,
    count: int,
    second: Model | None = None,
    dropout: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> list[Pair]:
    """Pairs to label, in the order in which they should be: the first n of more are the same.

    Bins of the score take turns, so that all of its range is seen. Within a bin, the pair is taken
    that is least like those taken before, by the vectors of its texts, and on which the model
    disagrees most with a second one or with its own dropout, by the difference of ranks.

    Args:
        pairs: candidates.
        model: scores them.
        count: how many to propose.
        second: another model to disagree with.
        dropout: let the model disagree with itself under dropout, which takes torch.
        seed: decides between equals, and what dropout drops.
        progress: False for no progress on standard error.
    """
    items = [*dict.fromkeys(pairs)]
    items.sort(key=lambda pair: hashlib.sha256(f"{seed} {pair}".encode()).hexdigest())
    if not items:
        raise TertiumError("There are no pairs to label.")
    if second is not None and dropout:
        raise TertiumError("Disagreement is with a second model or with dropout: take one of both.")
    apart = np.zeros(len(items))
    if dropout:
        apart = _dropout_spread(items, model, seed=seed, progress=progress)
    scores = np.asarray(model.score(items, progress=progress), np.float64)
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


def _dropout_spread(items: list[Pair], model: Model, *, seed: int, progress: bool | None) -> Vector:
    """Standard deviation of each pair's rank over passes with dropout, as a share of all ranks."""
    embedder = model.vector_model
    if not isinstance(embedder, Embedder):
        raise TertiumError(
            f"{model.name} gives no vectors: name a second model in place of dropout."
        )
    require("train", purpose="Disagreement with dropout", packages=["torch"])
    import torch

    encoder = embedder.encoder
    texts = sorted({text for pair in items for text in pair}, key=lambda text: (len(text), text))
    place = {text: at for at, text in enumerate(texts)}
    sides = [[place[pair[side]] for pair in items] for side in (0, 1)]
    found, stats = [], TokenizationStats()
    was_training = encoder.model.training
    encoder.model.train()
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            for _ in track(range(_PASSES), label="dropout", unit="pass", show=progress):
                rows = [
                    encoder.forward(encoder.features(batch, truncation=stats)).embedding
                    for batch in chunks(texts, _BATCH)
                ]
                vectors = torch.cat(rows).float().cpu().numpy()
                found.append(ranks(embedder.score_vectors(vectors[sides[0]], vectors[sides[1]])))
    finally:
        encoder.model.train(was_training)
    spread: Vector = np.std(found, axis=0) / len(items)
    if not spread.any():
        raise TertiumError(f"{model.name} has no dropout: name a second model in its place.")
    return spread


def _vectors(items: list[Pair], model: Model, *, progress: bool | None) -> NDArray[Any] | None:
    """A vector of length 1 for each pair: the sum of its texts'."""
    if not isinstance(model, Embedder):
        return None
    rows = np.asarray(model.encode([text for pair in items for text in pair], progress=progress))
    return unit(unit(rows[0::2]) + unit(rows[1::2]))
