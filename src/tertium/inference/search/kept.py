"""Texts that were kept so far, and which of them is nearest to a new one."""

from typing import Protocol

import numpy as np

from tertium.inference.search.exact import ranked
from tertium.inference.search.hnsw import Graph
from tertium.inference.search.rows import Matrix, Positions, Rows, Scores

__all__ = ["GraphKept", "Kept", "MatrixKept"]

_BLOCK = 8192
_CANDIDATES = 8  # of a graph; they are scored again


class Kept(Protocol):
    """Kept texts by the positions of their vectors."""

    def nearest(self, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text of each row; -1 where none is kept."""
        ...

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these, later in the file than all before."""
        ...


class MatrixKept:
    """Compares with every kept text."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._vectors = np.empty((len(rows), rows.dimension), np.float32)
        self._positions = np.empty(len(rows), np.int64)
        self._count = 0

    def nearest(self, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text of each row."""
        best = np.full(len(block), -np.inf, np.float32)
        where = np.full(len(block), -1, np.int64)
        each = np.arange(len(block))
        for start in range(0, self._count, _BLOCK):
            scores = block @ self._vectors[start : min(start + _BLOCK, self._count)].T
            top = scores.argmax(axis=1)
            better = scores[each, top] > best
            best[better] = scores[each, top][better]
            where[better] = self._positions[start + top[better]]
        found = ranked(self._rows, block, where[:, None])
        return found.positions[:, 0], found.scores[:, 0]

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these."""
        needed = self._count + len(positions)
        self._vectors[self._count : needed] = block
        self._positions[self._count : needed] = positions
        self._count = needed


class GraphKept:
    """Asks a graph for candidates; what it overlooks counts as not near."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._graph = Graph(rows.dimension)
        self._positions = np.empty(len(rows), np.int64)  # of the nodes of the graph

    def nearest(self, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text among the candidates of each row."""
        nodes = self._graph.search(block, _CANDIDATES)
        if not nodes.shape[1]:
            return np.full(len(block), -1, np.int64), np.full(len(block), -np.inf)
        positions = np.where(nodes < 0, -1, self._positions[np.maximum(nodes, 0)])
        found = ranked(self._rows, block, positions)
        return found.positions[:, 0], found.scores[:, 0]

    def add(self, positions: Positions, block: Matrix) -> None:
        """Keep these."""
        start = len(self._graph)
        self._positions[start : start + len(positions)] = positions
        self._graph.add(start, block, threads=1)
