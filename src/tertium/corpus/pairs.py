"""The best pairs seen so far, in memory that does not grow with the number of pairs."""

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Positions

__all__ = ["BestPairs"]

_LEAST = 1 << 20


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
