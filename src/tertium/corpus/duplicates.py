"""Near-duplicates: the first of them stays."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from tertium.corpus.exact import SLACK, CosineBound, close_in_block, ranked
from tertium.corpus.hnsw import Graph, Method, check_threshold
from tertium.corpus.inputs import distinct
from tertium.corpus.rows import Matrix, Positions, Rows, Scores, Source, cosines, distinct_rows
from tertium.progress import bar

__all__ = [
    "Deduped",
    "Dropped",
    "Reason",
    "dedupe",
    "dedupe_vectors",
]

_BLOCK = 512  # texts that are decided on together
_KEPT = 2048  # kept texts that they are compared with at once
_CANDIDATES = 8  # of a graph; they are scored again


class Reason(StrEnum):
    """Why a text was dropped."""

    SAME = "same"  # white space and Unicode spelling aside, the same text stands earlier
    NEAR = "near"  # an earlier text is alike


@dataclass(frozen=True)
class Dropped:
    """A text that was dropped.

    Attributes:
        row: where it stood.
        kept: row of the earlier text that stays: the same one, or the nearest.
        score: their cosine; 1 for the same text.
        reason: ``same`` or ``near``.
    """

    row: int
    kept: int
    score: float
    reason: Reason


@dataclass(frozen=True)
class Deduped:
    """What stays and what was dropped.

    Attributes:
        kept: rows that stay, ascending.
        dropped: the others, ascending.
        method: ``exact`` or ``hnsw``; None where no vectors were compared.
    """

    kept: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    method: Method | None


def dedupe(
    texts: Sequence[str],
    source: Source | None,
    *,
    threshold: float = 0.9,
    method: Method | str = Method.AUTO,
    progress: bool | None = None,
) -> Deduped:
    """Drop every text that is near an earlier one that was kept.

    A text is compared with kept texts only: where b is near a, and c is near b but not near a, b
    goes and c stays. So each text that went has a kept one that stands for it, and no two kept
    texts are near each other.

    Args:
        texts: any number; they and their vectors are held in memory.
        source: a model, or the vectors that it made, row i of text i; None drops only texts that
            are the same, white space and Unicode spelling aside.
        threshold: minimum cosine of near-duplicates.
        method: ``exact`` compares with every kept text; ``hnsw`` takes less than quadratic time,
            and may overlook a near one; ``auto`` is exact up to 1,000,000 texts.
        progress: False for no progress on standard error.
    """
    check_threshold(threshold)
    found = distinct(texts)
    near: dict[int, Dropped] = {}
    chosen = None if source is None else Method(method).chosen(len(found.rows))
    if source is not None and found.rows:
        rows = distinct_rows(texts, source, found.rows, progress=progress)
        partners, scores = dedupe_vectors(
            rows, threshold=threshold, method=method, progress=progress
        )
        for at in np.flatnonzero(partners >= 0).tolist():
            row, kept = found.rows[at], found.rows[int(partners[at])]
            near[row] = Dropped(row, kept, float(scores[at]), Reason.NEAR)
    same = {row: _same(row, first, near) for row, first in found.repeats.items()}
    dropped = {**near, **same}
    kept_rows = tuple(row for row in range(len(texts)) if row not in dropped)
    return Deduped(kept_rows, tuple(dropped[row] for row in sorted(dropped)), chosen)


def _same(row: int, first: int, near: dict[int, Dropped]) -> Dropped:
    """A repetition of a text that went points at the text that stands for that one."""
    if first in near:
        return Dropped(row, near[first].kept, near[first].score, Reason.NEAR)
    return Dropped(row, first, 1.0, Reason.SAME)


def dedupe_vectors(
    rows: Rows,
    *,
    threshold: float,
    method: Method | str = Method.AUTO,
    progress: bool | None = None,
) -> tuple[Positions, Scores]:
    """For every row the nearest earlier kept one if that is near, else -1; and their cosine."""
    partners = np.full(len(rows), -1, np.int64)
    scores = np.full(len(rows), -np.inf)
    exact = Method(method).chosen(len(rows)) is Method.EXACT
    kept: Kept = MatrixKept(rows, threshold) if exact else GraphKept(rows)
    with bar(total=len(rows), label="comparing", unit="text", show=progress) as shown:
        for start, block in rows.blocks(_BLOCK):
            best = kept.nearest(start, block)
            _decide(block, start, best, threshold, partners, scores)
            stays = np.flatnonzero(partners[start : start + len(block)] < 0)
            kept.add(stays + start, block[stays])
            shown.update(len(block))
    return partners, scores


def _decide(
    block: Matrix,
    start: int,
    best: tuple[Positions, Scores],
    threshold: float,
    partners: Positions,
    scores: Scores,
) -> None:
    """Go through a block in order: a row meets what was kept before it, in the block or earlier."""
    earlier = np.tri(len(block), k=-1, dtype=np.bool_)
    within = np.where(earlier, block @ block.T, -np.inf)
    meets = within.max(axis=1) >= threshold - SLACK
    stays = np.zeros(len(block), np.bool_)
    for at, (position, score) in enumerate(zip(*best, strict=True)):
        partner, near = int(position), float(score)
        if meets[at] and stays[:at].any():
            beside = int(np.argmax(np.where(stays[:at], within[at, :at], -np.inf)))
            if within[at, beside] >= max(near, threshold) - SLACK:
                exactly = float(cosines(block[at], block[beside]))
                if exactly > near:
                    partner, near = beside + start, exactly
        if near >= threshold:
            partners[start + at], scores[start + at] = partner, near
        else:
            stays[at] = True


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
        threshold: minimum cosine of near-duplicates; nothing is reported below it.
    """

    def __init__(self, rows: Rows, threshold: float) -> None:
        self._rows = rows
        self._least = threshold - SLACK
        self._bound = CosineBound.fitting(rows, threshold)
        self._positions = np.empty(len(rows), np.int64)
        self._count = 0

    def nearest(self, start: int, block: Matrix) -> tuple[Positions, Scores]:
        """Position and cosine of the nearest kept text of each row."""
        where = np.full(len(block), -1, np.int64)
        best = np.full(len(block), -np.inf)
        own = np.arange(start, start + len(block))
        for at in range(0, self._count, _KEPT):
            kept = self._positions[at : min(at + _KEPT, self._count)]
            row, column, scores = close_in_block(self._rows, self._bound, own, kept, self._least)
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
