"""The files of an index, read where they are needed.

A segment is a folder: ``texts.jsonl`` with a line ``{"id": …, "text": …}`` for every text,
``offsets.npy`` with where each line begins, ``ids.npy`` with a hash of each id, ``vectors.npy``.
A snapshot is what one manifest names: its segments and its graph, ready to be searched.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.exact import Found, nearest, ranked
from tertium.corpus.hnsw import Graph
from tertium.corpus.manifest import (
    Dtype,
    IndexFile,
    IndexManifest,
    Recall,
    SegmentRecord,
    check_files,
    damaged,
    read_index_manifest,
)
from tertium.corpus.rows import Matrix, Positions, Rows
from tertium.errors import TertiumError
from tertium.files import new_matrix

__all__ = [
    "VECTORS",
    "Entry",
    "Segment",
    "Snapshot",
    "StoredTexts",
    "measure_recall",
    "merge_segments",
    "open_snapshot",
    "record_segment",
    "write_texts",
]

TEXTS, OFFSETS, IDS, VECTORS = "texts.jsonl", "offsets.npy", "ids.npy", "vectors.npy"
_COPIED = 1 << 16  # vectors that are copied at once
_MORE = 16  # candidates beyond those asked for, since a graph knows vectors only roughly
_QUERIES = 200
_AT = 10


class Entry(NamedTuple):
    """A stored text."""

    id: str
    text: str


class StoredTexts:
    """The texts and ids of a segment, mapped from its files and fetched one by one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.offsets: NDArray[np.int64] = self._load(OFFSETS, ndim=1, dtypes=(np.int64,))
        self.ids: NDArray[np.uint64] = self._load(IDS, ndim=1, dtypes=(np.uint64,))
        try:
            self._bytes = np.memmap(folder / TEXTS, np.uint8, "r")
        except ValueError as error:
            raise damaged(folder / TEXTS, str(error)) from error
        if len(self.ids) != len(self):
            raise damaged(folder, "its files do not agree on the number of texts")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def entry(self, at: int) -> Entry:
        """The text at a position."""
        line = bytes(self._bytes[self.offsets[at] : self.offsets[at + 1]])
        try:
            fields = json.loads(line.decode("utf-8", "surrogatepass"))
            return Entry(fields["id"], fields["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self._folder / TEXTS, f"text {at + 1} cannot be read") from error

    def _load(self, name: str, *, ndim: int, dtypes: tuple[type, ...]) -> NDArray[Any]:
        path = self._folder / name
        try:
            array = np.load(path, mmap_mode="r")
        except OSError:
            raise
        except Exception as error:  # numpy reads the header as Python does: errors of many kinds
            raise damaged(path, f"{type(error).__name__}: {error}") from error
        if not isinstance(array, np.ndarray) or array.ndim != ndim or array.dtype not in dtypes:
            raise damaged(path, "it does not hold such an array")
        return array


class Segment(StoredTexts):
    """A segment with its vectors."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.vectors: NDArray[Any] = self._load(VECTORS, ndim=2, dtypes=(np.float32, np.int8))
        if len(self.vectors) != len(self):
            raise damaged(folder, "its files do not agree on the number of texts")


def _id_hash(name: str) -> int:
    """Eight bytes of a hash, to find an id among many."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def write_texts(folder: Path, entries: Iterable[Entry]) -> int:
    """Write texts and ids into the new ``folder``, and say how many there are."""
    folder.mkdir()
    offsets, hashes = [0], list[int]()
    with (folder / TEXTS).open("wb") as stream:
        for entry in entries:
            line = json.dumps({"id": entry.id, "text": entry.text}, ensure_ascii=False) + "\n"
            offsets.append(offsets[-1] + stream.write(line.encode("utf-8", "surrogatepass")))
            hashes.append(_id_hash(entry.id))
    np.save(folder / OFFSETS, np.asarray(offsets, np.int64))
    np.save(folder / IDS, np.asarray(hashes, np.uint64))
    return len(hashes)


def record_segment(folder: Path) -> SegmentRecord:
    """Bring a finished segment to the disk, and describe it."""
    files = {
        name: IndexFile.of(folder / name, durable=True) for name in (TEXTS, OFFSETS, IDS, VECTORS)
    }
    count = len(np.load(folder / IDS, mmap_mode="r"))
    return SegmentRecord(name=folder.name, count=count, files=files)


def merge_segments(folder: Path, parts: Sequence[Path]) -> SegmentRecord:
    """Write several segments as one, in the new ``folder``."""
    folder.mkdir()
    segments = [Segment(part) for part in parts]
    with (folder / TEXTS).open("wb") as stream:
        for part in parts:
            with (part / TEXTS).open("rb") as source:
                shutil.copyfileobj(source, stream, 1 << 20)
    sizes = np.cumsum([0, *(int(segment.offsets[-1]) for segment in segments)])
    starts = [segment.offsets[:-1] + size for segment, size in zip(segments, sizes, strict=False)]
    np.save(folder / OFFSETS, np.concatenate([*starts, sizes[-1:]]).astype(np.int64))
    np.save(folder / IDS, np.concatenate([segment.ids for segment in segments]))
    first = segments[0].vectors
    shape = (sum(map(len, segments)), first.shape[1])
    matrix = new_matrix(folder / VECTORS, first.dtype, shape)
    at = 0
    for segment in segments:
        for start in range(0, len(segment), _COPIED):
            block = segment.vectors[start : start + _COPIED]
            matrix[at : at + len(block)] = block
            at += len(block)
    matrix.flush()
    return record_segment(folder)


class Snapshot:
    """The texts and vectors of all segments, and the graph over the first of them."""

    def __init__(self, folder: Path, manifest: IndexManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        if not manifest.segments:
            raise damaged(folder, "its manifest names no segments")
        self.segments = [Segment(folder / record.name) for record in manifest.segments]
        self.rows = Rows([segment.vectors for segment in self.segments], normalised=True)
        self._starts = np.cumsum([0, *map(len, self.segments)])
        if len(self.rows) != manifest.count or self.rows.dimension != manifest.model.dimension:
            raise damaged(folder, "its segments do not hold what its manifest says")
        record = manifest.graph
        self._covered = 0 if record is None else record.count
        self._graph = (
            None if record is None else Graph.open(folder / record.name, self.rows.dimension)
        )

    def __len__(self) -> int:
        return self.manifest.count

    @cached_property
    def _rest(self) -> Rows | None:
        """Vectors that are in no graph, in memory."""
        if self._covered == len(self):
            return None
        return Rows([self.rows.block(self._covered, len(self))], normalised=True)

    def search(self, queries: Matrix, k: int) -> Found:
        """The ``k`` texts nearest to each unit vector; all of them where there are fewer."""
        parts = []
        if self._graph is not None:
            parts.append(self._graph.search(queries, max(2 * k, k + _MORE)))
        if self._rest is not None:
            parts.append(nearest(self._rest, queries, k).positions + self._covered)
        found = ranked(self.rows, queries, np.concatenate(parts, axis=1))
        return Found(found.positions[:, :k], found.scores[:, :k])

    def entry(self, position: int) -> Entry:
        """The text at a position."""
        home = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self.segments[home].entry(position - int(self._starts[home]))

    def hashes(self) -> np.ndarray:
        """A hash of every id, by position."""
        return np.concatenate([segment.ids for segment in self.segments])


def open_snapshot(folder: Path, *, contents: bool = False) -> Snapshot:
    """Open the index in ``folder`` as it is now, also while other processes add to it.

    Whoever adds removes the files that its new manifest no longer names; if one of them was still
    to be read, it begins again with that manifest. With ``contents``, every file is read whole.
    """
    intact: set[str] = set()  # read whole; an index never uses a name twice
    while True:
        manifest = read_index_manifest(folder)
        try:
            check_files(folder, manifest, contents=contents, intact=intact)
            return Snapshot(folder, manifest)
        except FileNotFoundError as missing:
            if read_index_manifest(folder) == manifest:
                raise TertiumError(
                    f"{missing.filename} is missing. Restore it from a copy, or build the index "
                    "again."
                ) from missing


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
