"""Near-duplicates: the first of them stays."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.exact import SLACK, CosineBound, close_in_block, ranked
from tertium.corpus.hnsw import Graph, Method, chosen_threshold
from tertium.corpus.inputs import Distinct, distinct, normal_form
from tertium.corpus.minhash import minhash_pairs
from tertium.corpus.mining import mine_vectors
from tertium.corpus.rows import Matrix, Positions, Rows, Scores, Source, cosines, distinct_rows
from tertium.errors import TertiumError
from tertium.progress import bar

__all__ = [
    "Deduped",
    "Dropped",
    "Reason",
    "decide",
    "dedupe",
    "dedupe_vectors",
    "greedy",
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
        method: ``exact``, ``hnsw`` or ``minhash``; None where no vectors were compared.
        threshold: the least cosine of what was dropped as near, where a number of texts was asked
            for; else what was given.
    """

    kept: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    method: Method | None
    threshold: float | None = None

    @property
    def share(self) -> float:
        """What share of the texts was dropped."""
        return len(self.dropped) / max(len(self.kept) + len(self.dropped), 1)

    def groups(self) -> list[tuple[int, tuple[Dropped, ...]]]:
        """Each kept text that stands for others, and these, the largest group first."""
        found: dict[int, list[Dropped]] = {}
        for gone in self.dropped:
            found.setdefault(gone.kept, []).append(gone)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return [(kept, tuple(gone)) for kept, gone in ordered]


def dedupe(
    texts: Sequence[str],
    source: Source | None,
    *,
    threshold: float | None = None,
    method: Method | str = Method.AUTO,
    against: Sequence[str] | None = None,
    against_vectors: NDArray[Any] | None = None,
    keep_different: str | None = None,
    to: int | None = None,
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
        threshold: minimum cosine of near-duplicates (default: what ``fit`` found for the
            model; else 0.9).
        method: ``exact`` compares with every kept text; ``hnsw`` takes less than quadratic time,
            and may overlook a near one; ``minhash`` compares only texts that share many runs of
            characters, and encodes no others; ``auto`` is exact up to 1,000,000 texts.
        against: drop what is near one of these instead; ``kept`` of what is dropped is then a row
            of these, and ``texts`` are not compared with each other.
        against_vectors: of these, where ``source`` is a matrix.
        keep_different: a regular expression: texts that differ in what it finds are no duplicates,
            whatever their cosine (an order number, a date).
        to: drop as many as it takes to keep this number, the most similar pairs first, instead of
            those above ``threshold``.
        progress: False for no progress on standard error.
    """
    limit = chosen_threshold(threshold, source, usual=0.9)
    given = 0 if against is None else len(against)
    every = texts if against is None else [*against, *texts]
    keys = _keys(every, keep_different)
    if against is None:
        found = distinct(every, keys)
    elif to is not None:
        raise TertiumError("A number of texts to keep does not go with other texts: leave to out.")
    else:
        source, found = _join(source, against_vectors), _beside(every, keys, given)
    if to is not None and not 1 <= to <= len(texts):
        raise TertiumError(f"Cannot keep {to:,} of {len(texts):,} texts: choose a smaller number.")
    if source is None or len(found.rows) == given or (against is not None and not given):
        return decide(every, found, {}, None, None, given=given)
    used = Method(method).chosen(len(found.rows))
    own = [keys[row] for row in found.rows]
    if used is Method.MINHASH and to is None:
        pairs = _by_minhash(every, source, found.rows, own, limit, given, progress=progress)
        return decide(every, found, pairs, used, limit, given=given)
    rows = distinct_rows(every, source, found.rows, progress=progress)
    if to is not None:
        pairs = _down_to(rows, own, min(to, len(rows)), used, progress=progress)
        least = min((score for _, score in pairs.values()), default=None)
        return decide(every, found, pairs, used, least)
    pairs = {}
    for members in _members(own):
        part = rows if len(members) == len(rows) else Rows([rows.take(members)], normalised=True)
        partners, scores = dedupe_vectors(
            part,
            threshold=limit,
            method=used,
            given=None if against is None else int(np.searchsorted(members, given)),
            progress=progress,
        )
        for at in np.flatnonzero(partners >= 0).tolist():
            pairs[int(members[at])] = (int(members[partners[at]]), float(scores[at]))
    return decide(every, found, pairs, used, limit, given=given)


Pairs = dict[int, tuple[int, float]]  # a distinct text that goes, the one that stays, their cosine


def decide(
    texts: Sequence[str],
    found: Distinct,
    pairs: Pairs,
    method: Method | None,
    threshold: float | None,
    *,
    given: int = 0,
) -> Deduped:
    """Rows of the file, which begins behind ``given`` others, from places among distinct texts."""
    near = {}
    for at, (kept, score) in pairs.items():
        row = found.rows[at]
        near[row] = Dropped(row, found.rows[kept], score, Reason.NEAR)
    same = {row: _same(row, first, near) for row, first in found.repeats.items()}
    dropped = {**near, **same}
    kept_rows = tuple(row - given for row in range(given, len(texts)) if row not in dropped)
    gone = tuple(replace(dropped[row], row=row - given) for row in sorted(dropped))
    return Deduped(kept_rows, gone, method, threshold)


def _same(row: int, first: int, near: dict[int, Dropped]) -> Dropped:
    """A repetition of a text that went points at the text that stands for that one."""
    if first in near:
        return Dropped(row, near[first].kept, near[first].score, Reason.NEAR)
    return Dropped(row, first, 1.0, Reason.SAME)


def _keys(texts: Sequence[str], pattern: str | None) -> list[Hashable]:
    """What must agree for two texts to be duplicates."""
    if pattern is None:
        return [None] * len(texts)
    try:
        find = re.compile(pattern).findall
    except re.error as error:
        raise TertiumError(f"{pattern!r} is not a regular expression: {error}.") from error
    return [tuple(find(text)) for text in texts]


def _members(keys: Sequence[Hashable]) -> list[Positions]:
    """Places of the same key, where there are at least two."""
    found: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return [np.asarray(places, np.int64) for places in found.values() if len(places) > 1]


def _join(source: Source | None, vectors: NDArray[Any] | None) -> Source | None:
    if not isinstance(source, np.ndarray):
        return source
    if vectors is None:
        raise TertiumError("The other texts need vectors, too: against_vectors.")
    return np.concatenate([vectors, source])


def _beside(texts: Sequence[str], keys: Sequence[Hashable], given: int) -> Distinct:
    """The first ``given`` texts, and the later ones that repeat none of them."""
    forms = [(key, normal_form(text)) for key, text in zip(keys, texts, strict=True)]
    first: dict[Hashable, int] = {}
    for row, form in enumerate(forms[:given]):
        first.setdefault(form, row)
    later = range(given, len(texts))
    repeats = {row: first[forms[row]] for row in later if forms[row] in first}
    return Distinct((*range(given), *(row for row in later if row not in repeats)), repeats)


def _down_to(
    rows: Rows, keys: Sequence[Hashable], count: int, method: Method, *, progress: bool | None
) -> Pairs:
    """Of the most similar pairs the later goes, until so many are left."""
    top_k = 8
    while True:
        found = mine_vectors(
            rows, threshold=-1.0, top_k=min(top_k, len(rows)), method=method, progress=progress
        )
        pairs: Pairs = {}
        for one, other, score in zip(*(column.tolist() for column in found), strict=True):
            if len(rows) - len(pairs) <= count:
                break
            if one not in pairs and other not in pairs and keys[one] == keys[other]:
                pairs[other] = (one, score)
        if len(rows) - len(pairs) <= count or top_k >= len(rows):
            break
        top_k *= 4
    for gone, (kept, score) in pairs.items():
        while kept in pairs:  # what stood for it went later
            kept = pairs[kept][0]
        pairs[gone] = (kept, score)
    return pairs


def _by_minhash(
    texts: Sequence[str],
    source: Source,
    rows: Sequence[int],
    keys: Sequence[Hashable],
    threshold: float,
    given: int,
    *,
    progress: bool | None,
) -> Pairs:
    """Encode and compare only what a first pass found."""
    first, second = minhash_pairs([texts[row] for row in rows], progress=progress)
    alike = np.fromiter((keys[a] == keys[b] for a, b in zip(first, second, strict=True)), bool)
    if given:
        alike &= (first < given) & (second >= given)
    first, second = first[alike], second[alike]
    places = np.unique(np.concatenate([first, second]))
    if not len(places):
        return {}
    some = distinct_rows(texts, source, [rows[at] for at in places.tolist()], progress=progress)
    scores = some.similarity(np.searchsorted(places, first), np.searchsorted(places, second))
    return greedy(first, second, scores, threshold)


def greedy(first: Positions, second: Positions, scores: Scores, threshold: float) -> Pairs:
    """What goes of some pairs, in the order of the texts: what is near one that stays.

    >>> greedy(np.array([0, 1]), np.array([1, 2]), np.array([0.95, 0.95]), 0.9)
    {1: (0, 0.95)}
    """
    near = scores >= threshold
    first, second, scores = first[near], second[near], scores[near]
    order = np.lexsort((first, -scores, second))  # of each text, its best partner first
    pairs: Pairs = {}
    for at in order.tolist():
        one, other = int(first[at]), int(second[at])
        if one not in pairs and other not in pairs:
            pairs[other] = (one, float(scores[at]))
    return pairs


def dedupe_vectors(
    rows: Rows,
    *,
    threshold: float,
    method: Method | str = Method.AUTO,
    given: int | None = None,
    progress: bool | None = None,
) -> tuple[Positions, Scores]:
    """For every row the nearest earlier kept one if that is near, else -1; and their cosine.

    With ``given``, so many rows at the beginning are kept, and all later ones are compared with
    these only.
    """
    partners = np.full(len(rows), -1, np.int64)
    scores = np.full(len(rows), -np.inf)
    exact = Method(method).chosen(len(rows)) is Method.EXACT
    kept = MatrixKept(rows, threshold) if exact else GraphKept(rows)
    if given:
        kept.add(np.arange(given), rows.block(0, given))
    with bar(total=len(rows), label="comparing", unit="text", show=progress) as shown:
        for start in range(given or 0, len(rows), _BLOCK):
            block = rows.block(start, start + _BLOCK)
            where, best = kept.nearest(start, block)
            here = slice(start, start + len(block))
            if given is None:
                _decide(block, start, (where, best), threshold, partners, scores)
                stays = np.flatnonzero(partners[here] < 0)
                kept.add(stays + start, block[stays])
            else:
                partners[here] = np.where(best >= threshold, where, -1)
                scores[here] = best
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


class MatrixKept:
    """Kept texts by the positions of their vectors; each is compared with.

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
        """Position and cosine of the nearest kept text of each row; -1 where none is near.

        Args:
            start: position of the first row.
            block: the rows.
        """
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
        """Keep these, later in the file than all before."""
        self._positions[self._count : self._count + len(positions)] = positions
        self._count += len(positions)


class GraphKept:
    """The same by a graph, which names candidates; what it overlooks counts as not near."""

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
