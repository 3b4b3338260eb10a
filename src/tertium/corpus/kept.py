"""Texts that were kept so far, and which of them is nearest to a new one."""

from typing import Protocol

import numpy as np

from tertium.corpus.exact import SLACK, ranked
from tertium.corpus.hnsw import Graph
from tertium.corpus.rows import Matrix, Positions, Rows, Scores
from tertium.corpus.screen import Screen, close_in_block

__all__ = ["GraphKept", "Kept", "MatrixKept"]

_BLOCK = 2048
_CANDIDATES = 8  # of a graph; they are scored again


class Kept(Protocol):
    """Kept texts by the positions of their vectors."""

    def nearest(self, start: int, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text of each row; -1 where none is near.

        Args:
            start: position of the first row.
            block: the rows.
        """
        ...

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these, later in the file than all before."""
        ...


class MatrixKept:
    """Compares with every kept text.

    Args:
        rows: all texts.
        threshold: least cosine that is near; of texts that are not near, none is told.
    """

    def __init__(self, rows: Rows, threshold: float) -> None:
        self._rows = rows
        self._least = threshold - SLACK
        self._screen = Screen.fitting(rows, threshold)
        self._positions = np.empty(len(rows), np.int64)
        self._count = 0

    def nearest(self, start: int, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text of each row."""
        where = np.full(len(block), -1, np.int64)
        best = np.full(len(block), -np.inf)
        own = np.arange(start, start + len(block))
        for at in range(0, self._count, _BLOCK):
            kept = self._positions[at : min(at + _BLOCK, self._count)]
            row, column, scores = close_in_block(self._rows, self._screen, own, kept, self._least)
            order = np.lexsort((column, -scores, row))  # of equals, the earliest
            first = order[np.diff(row[order], prepend=-1) > 0]
            better = first[scores[first] > best[row[first]]]
            where[row[better]], best[row[better]] = kept[column[better]], scores[better]
        found = np.flatnonzero(where >= 0)
        best[found] = self._rows.similarity(own[found], where[found])
        return where, best

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these."""
        self._positions[self._count : self._count + len(positions)] = positions
        self._count += len(positions)


class GraphKept:
    """Asks a graph for candidates; what it overlooks counts as not near."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._graph = Graph(rows.dimension)
        self._positions = np.empty(len(rows), np.int64)  # of the nodes of the graph

    def nearest(self, start: int, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text among the candidates of each row."""
        nodes = self._graph.search(block, _CANDIDATES)
        if not nodes.shape[1]:
            return np.full(len(block), -1, np.int64), np.full(len(block), -np.inf)
        positions = np.where(nodes < 0, -1, self._positions[np.maximum(nodes, 0)])
        found = ranked(self._rows, block, positions)
        return found.positions[:, 0], found.scores[:, 0]

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these."""
        node = len(self._graph)
        self._positions[node : node + len(positions)] = positions
        self._graph.add(node, block, threads=1)
