"""Segments: texts with ids and vectors in files that are read where they are needed.

A segment is a folder: ``texts.jsonl`` with a line ``{"id": …, "text": …}`` for every text,
``offsets.npy`` with where each line begins, ``ids.npy`` with a hash of each id, ``vectors.npy``.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.manifest import SegmentRecord, record_file
from tertium.errors import TertiumError
from tertium.files import new_matrix

__all__ = [
    "VECTORS",
    "Entry",
    "Segment",
    "StoredTexts",
    "damaged",
    "merge_segments",
    "record_segment",
    "write_texts",
]

TEXTS, OFFSETS, IDS, VECTORS = "texts.jsonl", "offsets.npy", "ids.npy", "vectors.npy"
_COPIED = 1 << 16  # vectors that are copied at once


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


def damaged(path: Path, reason: str) -> TertiumError:
    """The error for what no longer makes sense."""
    return TertiumError(
        f"{path} is damaged: {reason}. Restore it from a copy, or build the index again."
    )


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
    files = {name: record_file(folder / name) for name in (TEXTS, OFFSETS, IDS, VECTORS)}
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
