"""Pairs of texts that mean about the same, the most alike first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.exact import SLACK, close_pairs, ranked
from tertium.corpus.hnsw import Graph, Method, chosen_threshold
from tertium.corpus.inputs import distinct
from tertium.corpus.rows import Positions, Rows, Scores, Source, distinct_rows
from tertium.errors import TertiumError
from tertium.progress import bar

__all__ = ["Mined", "MinedPair", "mine", "mine_vectors"]

_WINDOW = 4096
_LEAST = 1 << 20  # pairs that may be held, however few texts there are


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
    threshold: float | None = None,
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
        threshold: minimum cosine of a pair (default: what ``fit`` found for the
            model; else 0.8).
        top_k: a pair must be among this many nearest of either text.
        limit: keep only the best pairs, this many (default: all).
        method: ``exact`` looks at every pair; ``hnsw`` takes less than quadratic time, and may
            overlook some; ``auto`` is exact up to 1,000,000 texts. Scores are exact either way.
        progress: False for no progress on standard error.
    """
    least = chosen_threshold(threshold, source, usual=0.8)
    if top_k < 1 or (limit is not None and limit < 1):
        raise TertiumError("Ask for at least one neighbour, and for at least one pair.")
    found = distinct(texts)
    chosen = Method(method).chosen(len(found.rows))
    if len(found.rows) < 2:
        nothing = np.empty(0, np.int64)
        return Mined(nothing, nothing, np.empty(0), len(found.repeats), chosen)
    rows = distinct_rows(texts, source, found.rows, progress=progress)
    first, second, scores = mine_vectors(
        rows, threshold=least, top_k=top_k, limit=limit, method=chosen, progress=progress
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
    if method is Method.MINHASH:
        raise TertiumError("Only dedupe has a first pass by minhash: mine exactly, or by hnsw.")
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


class BestPairs:
    """Pairs of ``n`` texts that are among the ``top_k`` nearest of the one or of the other.

    Pairs arrive in any order. Whenever more than about twice the possible number is held, those go
    that ``top_k`` better ones of both texts have outdone; later pairs must do better still.
    """

    def __init__(self, n: int, top_k: int) -> None:
        self._top_k = top_k
        self._bars = np.full(n, -np.inf)  # what a pair must reach to be among a text's nearest
        self._first = np.empty(0, np.int64)
        self._second = np.empty(0, np.int64)
        self._scores = np.empty(0)
        self._waiting: list[tuple[Positions, Positions, NDArray[np.float64]]] = []
        self._held = 0
        self._most = max(2 * n * top_k, _LEAST)

    def add(self, first: Positions, second: Positions, scores: NDArray[np.floating]) -> None:
        """Offer pairs, the lesser position first."""
        wanted = scores >= np.minimum(self._bars[first], self._bars[second])
        if wanted.any():
            self._waiting.append((first[wanted], second[wanted], scores[wanted].astype(np.float64)))
            self._held += int(wanted.sum())
        if self._held > self._most:
            self._prune()

    def pairs(self) -> tuple[Positions, Positions]:
        """All that are left, each once, in no particular order."""
        self._prune()
        return self._first, self._second

    def _prune(self) -> None:
        parts = [(self._first, self._second, self._scores), *self._waiting]
        first, second, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._waiting.clear()
        _, once = np.unique(first * len(self._bars) + second, return_index=True)
        first, second, scores = first[once], second[once], scores[once]
        stays = self._among_best(first, second, scores)
        self._first, self._second, self._scores = first[stays], second[stays], scores[stays]
        self._held = len(self._scores)

    def _among_best(
        self, first: Positions, second: Positions, scores: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which pairs are among the nearest of either text; raises the bars."""
        text, other = np.concatenate([first, second]), np.concatenate([second, first])
        score = np.tile(scores, 2)
        order = np.lexsort((other, -score, text))
        ordered = text[order]
        rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        last = order[rank == self._top_k - 1]
        self._bars[text[last]] = score[last]
        near = np.zeros(len(order), np.bool_)
        near[order[rank < self._top_k]] = True
        return near[: len(scores)] | near[len(scores) :]
