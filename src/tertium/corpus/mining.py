"""Pairs of texts that mean about the same, the most alike first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tertium.corpus.embed import Source, distinct_rows
from tertium.corpus.exact import SLACK, close_pairs, ranked
from tertium.corpus.hnsw import Graph
from tertium.corpus.method import Method, check_threshold
from tertium.corpus.pairs import BestPairs
from tertium.corpus.rows import Positions, Rows, Scores
from tertium.corpus.texts import distinct
from tertium.errors import TertiumError
from tertium.progress import bar

__all__ = ["Mined", "MinedPair", "mine", "mine_vectors"]

_WINDOW = 4096


class MinedPair(NamedTuple):
    """Two rows, ``first < second``, and their cosine."""

    first: int
    second: int
    score: float


@dataclass(frozen=True)
class Mined:
    """Pairs, the most alike first, those of equal similarity by row.

    Attributes:
        first: rows of the first texts.
        second: rows of the second texts, each greater than its first.
        scores: cosines.
        repeats: how many texts were left out because an earlier one is the same.
        method: ``exact`` or ``hnsw``.
    """

    first: Positions
    second: Positions
    scores: Scores
    repeats: int
    method: Method

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[MinedPair]:
        columns = (self.first.tolist(), self.second.tolist(), self.scores.tolist())
        return (MinedPair(*pair) for pair in zip(*columns, strict=True))


def mine(
    texts: Sequence[str],
    source: Source,
    *,
    threshold: float = 0.8,
    top_k: int = 10,
    limit: int | None = None,
    method: Method | str = Method.AUTO,
    progress: bool | None = None,
) -> Mined:
    """Find the pairs of texts that are most alike.

    A text that only repeats an earlier one, white space aside, is left out: a paraphrase says the
    same in other words.

    Args:
        texts: any number; they and their vectors are held in memory.
        source: a model, or the vectors that it made, row i of text i.
        threshold: least cosine of a pair.
        top_k: a pair must be among so many nearest of the one text or of the other.
        limit: at most so many pairs, the best (default: all).
        method: ``exact`` looks at every pair; ``hnsw`` takes less than quadratic time, and may
            overlook some; ``auto`` is exact up to 1,000,000 texts. Scores are exact either way.
        progress: False for no progress on standard error.
    """
    check_threshold(threshold)
    if top_k < 1 or (limit is not None and limit < 1):
        raise TertiumError("Ask for at least one neighbour, and for at least one pair.")
    found = distinct(texts)
    chosen = Method(method).chosen(len(found.rows))
    if len(found.rows) < 2:
        nothing = np.empty(0, np.int64)
        return Mined(nothing, nothing, np.empty(0), len(found.repeats), chosen)
    rows = distinct_rows(texts, source, found.rows, progress=progress)
    first, second, scores = mine_vectors(
        rows, threshold=threshold, top_k=top_k, limit=limit, method=chosen, progress=progress
    )
    names = np.asarray(found.rows, np.int64)
    return Mined(names[first], names[second], scores, len(found.repeats), chosen)


def mine_vectors(
    rows: Rows,
    *,
    threshold: float,
    top_k: int,
    limit: int | None = None,
    method: Method = Method.AUTO,
    progress: bool | None = None,
) -> tuple[Positions, Positions, Scores]:
    """Positions and cosines of the pairs, in order; as :func:`mine`."""
    find = _exact if method.chosen(len(rows)) is Method.EXACT else _by_graph
    first, second = find(rows, threshold=threshold, top_k=top_k, progress=progress)
    scores = rows.similarity(first, second)
    order = np.lexsort((second, first, -scores))
    order = order[scores[order] >= threshold][:limit]
    return first[order], second[order], scores[order]


def _exact(
    rows: Rows, *, threshold: float, top_k: int, progress: bool | None
) -> tuple[Positions, Positions]:
    best = BestPairs(len(rows), top_k)
    with bar(total=len(rows), label="mining", unit="text", show=progress) as shown:
        for first, second, scores in close_pairs(rows, threshold, done=shown.update):
            best.add(first, second, scores)
    return best.pairs()


def _by_graph(
    rows: Rows, *, threshold: float, top_k: int, progress: bool | None
) -> tuple[Positions, Positions]:
    graph = Graph(rows.dimension)
    best = BestPairs(len(rows), top_k)
    with bar(total=2 * len(rows), label="mining", unit="text", show=progress) as shown:
        for start, block in rows.blocks(_WINDOW):
            graph.add(start, block, threads=1)
            shown.update(len(block))
        for start, block in rows.blocks(_WINDOW):
            near = ranked(rows, block, graph.search(block, 2 * top_k + 1))
            own = np.arange(start, start + len(block))[:, None]
            hits = (near.scores >= threshold - SLACK) & (near.positions != own)
            other, me = near.positions[hits], np.broadcast_to(own, hits.shape)[hits]
            best.add(np.minimum(me, other), np.maximum(me, other), near.scores[hits])
            shown.update(len(block))
    return best.pairs()
