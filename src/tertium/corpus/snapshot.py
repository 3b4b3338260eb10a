"""An index as it is at one moment: its SQLite file, its vectors and its graph, to be searched."""

import re
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.exact import Found, nearest, ranked
from tertium.corpus.hnsw import EXPANSION, Graph
from tertium.corpus.rows import Matrix, Positions, Rows
from tertium.corpus.store import Dtype, Entry, IndexManifest, Recall, Store, damaged
from tertium.corpus.where import Where, parse_where
from tertium.errors import TertiumError

__all__ = ["Place", "Snapshot", "measure_recall", "open_snapshot"]

_MORE = 16  # candidates beyond those asked for, since a graph knows vectors only roughly
_AROUND = 4  # times as many are looked at under a filter, since what it leaves lies farther away
_STEP = 10  # vectors that are compared in the time in which a graph finds one more candidate
_MASKS = 16  # filters that are remembered
_DEPTH = 100  # texts of either list that are fused
_FUSION = 60  # of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)
_QUERIES, _AT = 200, 10  # texts whose neighbours measure the recall, and how many neighbours
_WORD = re.compile(r"\w+")

Mask = NDArray[np.bool_]


class Place(NamedTuple):
    """A text that was found: its number, the row of its best vector, and what that scores."""

    number: int
    row: int
    cosine: float
    score: float


class Snapshot:
    """What one state of an index holds.

    Args:
        store: a connection that sees this state.
        manifest: that of this state.
    """

    def __init__(self, store: Store, manifest: IndexManifest) -> None:
        self.store = store
        self.folder = store.folder
        self.manifest = manifest
        self.rows = map_rows(self.folder, manifest)
        graph = manifest.graph
        self._graph = (
            None if graph is None else Graph.open(self.folder / graph.name, self.rows.dimension)
        )
        self._masks: dict[str | None, Mask | None] = {}

    def __len__(self) -> int:
        return self.manifest.count

    @cached_property
    def _rest(self) -> Rows | None:
        """Vectors that are in no graph, in memory."""
        covered = self.manifest.covered
        if covered == len(self.rows):
            return None
        return Rows([self.rows.block(covered, len(self.rows))], normalised=True)

    def where(self, text: str | None) -> Where | None:
        """A filter of this index."""
        return None if text is None else parse_where(text, self.manifest.columns)

    def mask(self, text: str | None) -> Mask | None:
        """Which vectors meet a filter; None: all do."""
        if text not in self._masks:
            while len(self._masks) >= _MASKS:
                self._masks.pop(next(iter(self._masks)))
            self._masks[text] = self.store.mask(self.manifest, self.where(text))
        return self._masks[text]

    def entry(self, number: int) -> Entry:
        """The text of a number."""
        return self.store.entry(self.manifest, number)

    def entries(self, where: str | None = None) -> Iterator[Entry]:
        """All texts, or those that meet a filter, in the order of their vectors."""
        found = self.where(where)
        if found is None:
            return self.store.entries(self.manifest)
        return self.store.entries(self.manifest, found.sql, found.values)

    def search(self, queries: Matrix, k: int, *, where: str | None = None) -> list[list[Place]]:
        """The ``k`` texts nearest to each unit vector; all of them where there are fewer.

        A text with several vectors is as near as the nearest of them.
        """
        mask = self.mask(where)
        most = len(self.rows) if mask is None else int(mask.sum())
        wide = min(k, most)
        if not wide:
            return [[] for _ in queries]
        while True:
            found = self.nearest_rows(queries, wide, mask)
            places = [self._places(*each, k=k) for each in zip(*found, strict=True)]
            if wide >= most or all(len(each) >= k for each in places):
                return places
            wide = min(2 * wide, most)

    def _places(self, rows: Positions, scores: NDArray[np.float64], *, k: int) -> list[Place]:
        here = [(row, score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True)]
        here = [(row, score) for row, score in here if row >= 0]
        numbers = self.store.numbers_at(row for row, _ in here)
        best: dict[int, Place] = {}
        for number, (row, score) in zip(numbers, here, strict=True):
            best.setdefault(number, Place(number, row, score, score))
        return list(best.values())[:k]

    def search_words(
        self, queries: Matrix, words: Sequence[str], k: int, *, where: str | None = None
    ) -> list[list[Place]]:
        """The ``k`` best texts by their vectors and by BM25 of their words, in one list.

        ``words`` are the texts that the unit vectors of the queries were made of.
        """
        depth = max(_DEPTH, 2 * k)
        condition, found = self.where(where), []
        by_vector = self.search(queries, depth, where=where)
        for at, (near, text) in enumerate(zip(by_vector, words, strict=True)):
            known = {place.number: place for place in near}
            worded = self.find_words(text, condition, depth)
            new = [number for number in worded if number not in known]
            known |= self._scored(queries[at : at + 1], new)
            fused = fuse([[place.number for place in near], worded])
            found.append([known[n]._replace(score=score) for n, score in fused[:k]])
        return found

    def find_words(self, text: str, where: Where | None, most: int) -> list[int]:
        """Numbers of the texts that hold words of ``text``, by BM25, the best first."""
        return self.store.find_words(_WORD.findall(text), where, most, total=len(self))

    def _scored(self, query: Matrix, numbers: Sequence[int]) -> dict[int, Place]:
        """The best vector of some texts."""
        if not numbers:
            return {}
        places = self.store.places(numbers)
        width = max(passages for _, passages in places)
        rows = np.full((len(places), width), -1, np.int64)
        for at, (first, passages) in enumerate(places):
            rows[at, :passages] = np.arange(first, first + passages)
        best = ranked(self.rows, np.broadcast_to(query, (len(rows), query.shape[1])), rows)
        return {
            number: Place(number, int(row), float(score), float(score))
            for number, row, score in zip(
                numbers, best.positions[:, 0], best.scores[:, 0], strict=True
            )
        }

    def nearest_rows(self, queries: Matrix, k: int, mask: Mask | None) -> Found:
        """The ``k`` vectors nearest to each query among those of a mask."""
        parts = []
        covered = self.manifest.covered
        if self._graph is not None:
            inside = None if mask is None else mask[:covered]
            parts.append(self._by_graph(self._graph, queries, k, inside))
        if self._rest is not None:
            rest = nearest(self._rest, queries, k, allowed=None if mask is None else mask[covered:])
            parts.append(np.where(rest.positions < 0, -1, rest.positions + covered))
        found = ranked(self.rows, queries, np.concatenate(parts, axis=1))
        return Found(found.positions[:, :k], found.scores[:, :k])

    def _by_graph(self, graph: Graph, queries: Matrix, k: int, mask: Mask | None) -> Positions:
        """Candidates of each query: from the graph, or exactly where that takes less time.

        Of what the graph gives, a mask leaves a share, so the graph is asked for as many more: what
        is left is a few times what it would look at without a mask. Where that is fewer than
        wanted, it is asked again.
        """
        wide = max(2 * k, k + _MORE)
        if mask is None:
            return graph.search(queries, wide)
        allowed, total = int(mask.sum()), len(mask)
        found = np.full((len(queries), wide), -1, np.int64)
        left = np.arange(len(queries))
        asked = int(_AROUND * max(wide, EXPANSION) * total / max(allowed, 1)) + 1
        while len(left) and asked < total and asked * _STEP < allowed:
            keys = graph.search(queries[left], asked)
            keys = np.where((keys >= 0) & mask[keys], keys, -1)
            order = np.argsort(keys < 0, axis=1, kind="stable")[:, :wide]
            found[left] = np.take_along_axis(keys, order, axis=1)
            left = left[(found[left] < 0).any(axis=1)]
            asked *= 4
        if len(left) and allowed:
            exact = nearest(self.rows.head(total), queries[left], wide, allowed=mask).positions
            found[left] = -1
            found[left, : exact.shape[1]] = exact
        return found


def fuse(lists: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Numbers by the sum of 1 / (60 + rank) over the lists, best first; of equals, the lesser.

    >>> fuse([[7, 8], [8, 9]])[0][0]
    8
    """
    scores: dict[int, float] = {}
    for each in lists:
        for rank, number in enumerate(each, 1):
            scores[number] = scores.get(number, 0.0) + 1 / (_FUSION + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def map_rows(folder: Path, manifest: IndexManifest) -> Rows:
    """All vectors of an index, mapped from their files."""
    parts = [_load(folder / segment.name) for segment in manifest.segments]
    nothing = np.empty((0, max(manifest.model.dimension, 0)), np.float32)
    rows = Rows(parts or [nothing], normalised=True)
    if len(rows) != manifest.rows or rows.dimension != manifest.model.dimension:
        raise damaged(folder, "its files do not hold what its manifest says")
    return rows


def _load(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception as error:  # numpy reads the header as Python does: errors of many kinds
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype in (np.float32, np.int8):
        return array
    raise damaged(path, "it does not hold such an array")


def open_snapshot(folder: Path, *, contents: bool = False) -> Snapshot:
    """Open the index in ``folder`` as it is now, also while another process changes it.

    Whoever changes it removes the files that its new manifest no longer names; if one of them was
    still to be opened, it begins again with that manifest. With ``contents``, all is read.
    """
    from tertium.corpus.convert import convert_if_old

    convert_if_old(folder)
    store = Store(folder)
    try:
        intact: set[str] = set()  # read whole; an index never uses a name twice
        while True:
            manifest = store.begin()
            try:
                _check_files(folder, manifest, contents=contents, intact=intact)
                found = Snapshot(store, manifest)
            except FileNotFoundError as missing:
                if store.begin() == manifest:
                    raise TertiumError(
                        f"{missing.filename} is missing. Restore it from a copy, or build the "
                        "index again."
                    ) from missing
                continue
            if contents:
                store.check(manifest)
            weakref.finalize(found, store.close)
            return found
    except BaseException:
        store.close()
        raise


def _check_files(
    folder: Path, manifest: IndexManifest, *, contents: bool, intact: set[str]
) -> None:
    """Raise unless all files are there and have their sizes; with ``contents``, their hashes too.

    Raises:
        FileNotFoundError: one is missing, perhaps because another process has just replaced it.
        TertiumError: one is damaged.
    """
    for name, record in manifest.files().items():
        read = contents and name not in intact
        fault = record.fault(folder / name, contents=read)
        if fault is not None:
            raise damaged(folder / name, f"it {fault}")
        if read:
            intact.add(name)


def measure_recall(snapshot: Snapshot, truth: Rows, *, against: Dtype) -> Recall | None:
    """Ask for the neighbours of some stored texts, and compare with an exact search of ``truth``.

    A text is not counted as its own neighbour. None for an index of a single vector.

    Args:
        snapshot: what is measured.
        truth: the vectors to search exactly.
        against: how they are stored.
    """
    mask = snapshot.mask(None)
    alive = np.arange(len(truth)) if mask is None else np.flatnonzero(mask)
    if len(alive) < 2:
        return None
    draw = np.random.default_rng(0).permutation(len(alive))[:_QUERIES]
    own = np.sort(alive[draw]).astype(np.int64)
    vectors = truth.take(own)
    wanted = min(_AT, len(alive) - 1)
    expected = nearest(truth, vectors, wanted + 1, allowed=mask).positions
    found = snapshot.nearest_rows(vectors, wanted + 1, mask).positions
    shares = [
        len(_others(me, there, wanted) & _others(me, here, wanted)) / wanted
        for me, there, here in zip(own.tolist(), expected, found, strict=True)
    ]
    value = float(np.mean(shares))
    return Recall(at=wanted, queries=len(own), value=value, texts=len(truth), against=against)


def _others(me: int, positions: Positions, count: int) -> set[int]:
    return set([at for at in positions.tolist() if at not in (me, -1)][:count])
