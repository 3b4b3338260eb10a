"""How many of the true neighbours an index finds."""

import numpy as np

from tertium.corpus.exact import nearest
from tertium.corpus.manifest import Dtype, Recall
from tertium.corpus.rows import Positions, Rows
from tertium.corpus.snapshot import Snapshot

__all__ = ["measure_recall"]

_QUERIES = 200
_AT = 10


def measure_recall(
    snapshot: Snapshot, truth: Rows, *, against: Dtype, queries: int = _QUERIES, at: int = _AT
) -> Recall | None:
    """Ask for the neighbours of some stored texts, and compare with an exact search of ``truth``.

    A text is not counted as its own neighbour. None for an index of a single text.

    Args:
        snapshot: what is measured.
        truth: the vectors to search exactly.
        against: how they are stored.
        queries: how many texts, drawn with a fixed seed.
        at: how many neighbours.
    """
    if len(truth) < 2:
        return None
    draw = np.random.default_rng(0).permutation(len(truth))[:queries]
    own = np.sort(draw).astype(np.int64)
    vectors = truth.take(own)
    wanted = min(at, len(truth) - 1)
    expected = nearest(truth, vectors, wanted + 1).positions
    found = snapshot.search(vectors, wanted + 1).positions
    shares = [
        len(_others(me, there, wanted) & _others(me, here, wanted)) / wanted
        for me, there, here in zip(own.tolist(), expected, found, strict=True)
    ]
    return Recall(
        at=wanted,
        queries=len(own),
        value=float(np.mean(shares)),
        texts=len(truth),
        against=against,
    )


def _others(me: int, positions: Positions, count: int) -> set[int]:
    return set([at for at in positions.tolist() if at not in (me, -1)][:count])
