"""Indexes of the format before, a JSON manifest and a folder per segment: converted once.

Texts go into the SQLite file; vectors and graph stay where they are.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from tertium.corpus.store import (
    DATABASE,
    LOCK,
    OLD_MANIFEST,
    Dtype,
    Entry,
    GraphRecord,
    Identity,
    IndexFile,
    IndexManifest,
    Recall,
    SegmentRecord,
    Store,
    damaged,
)
from tertium.errors import TertiumWarning
from tertium.files import report_full_disk
from tertium.models.tokens import chunks
from tertium.records.lock import lock
from tertium.records.record import Frozen, Record, read_record

__all__ = ["convert_if_old"]

_VECTORS = "vectors.npy"
_WINDOW = 4096


class _Segment(Frozen):
    name: str = Field(pattern=r"^segment-\d+$")
    count: int
    files: dict[Annotated[str, Field(pattern=r"^\w+\.\w+$")], IndexFile]


class _Manifest(Record):
    remedy: ClassVar[str] = IndexManifest.remedy

    model: Identity
    dtype: Dtype
    count: int = 0
    segments: tuple[_Segment, ...] = ()
    graph: GraphRecord | None = None
    recall: Recall | None = None
    next: int = 1


def convert_if_old(folder: Path) -> None:
    """Convert an index of the format before; what is killed meanwhile begins again."""
    if not (folder / OLD_MANIFEST).is_file():
        return
    with lock(folder / LOCK, protects=folder), report_full_disk(folder):
        if not (folder / OLD_MANIFEST).is_file():
            return  # another process has done it
        old = read_record(folder / OLD_MANIFEST, _Manifest)
        with closing(Store(folder, writable=True, create=True)) as store:
            if store.is_empty:
                _convert(store, old)
        (folder / OLD_MANIFEST).unlink()  # from now on the SQLite file is the index
        for segment in old.segments:
            for name in set(segment.files) - {_VECTORS}:
                (folder / segment.name / name).unlink(missing_ok=True)
    warnings.warn(
        f"{folder} was converted: its {old.count:,} texts are in {DATABASE} now.",
        TertiumWarning,
        stacklevel=4,
    )


def _convert(store: Store, old: _Manifest) -> None:
    segments = tuple(
        SegmentRecord(
            name=f"{segment.name}/{_VECTORS}", count=segment.count, file=segment.files[_VECTORS]
        )
        for segment in old.segments
    )
    manifest = IndexManifest(
        model=old.model,
        dtype=old.dtype,
        count=old.count,
        rows=old.count,
        segments=segments,
        graph=old.graph,
        recall=old.recall,
        next=old.next,
    )
    with store.transaction():
        store.create()
        written = 0
        for window in chunks(_entries(store.folder, old), _WINDOW):
            store.insert(window, ())
            written += len(window)
        if written != old.count:
            raise damaged(store.folder, f"it holds {written:,} texts instead of {old.count:,}")
        store.write_manifest(manifest)


def _entries(folder: Path, old: _Manifest) -> Iterator[Entry]:
    number = 0
    for segment in old.segments:
        path = folder / segment.name / "texts.jsonl"
        with path.open("rb") as stream:
            for line in stream:
                try:
                    fields = json.loads(line.decode("utf-8", "surrogatepass"))
                    name, text = fields["id"], fields["text"]
                except (ValueError, KeyError, TypeError) as error:
                    raise damaged(path, f"text {number + 1} cannot be read") from error
                number += 1
                yield Entry(number, name, text, number - 1, 1, None, {})
