"""``manifest.json``: what an index holds. A file that it does not name does not exist."""

import json
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tertium.corpus.identity import Identity
from tertium.errors import TertiumError
from tertium.files import atomic_path, sha256, sync

__all__ = [
    "FORMAT",
    "MANIFEST",
    "Dtype",
    "FileRecord",
    "GraphRecord",
    "IndexManifest",
    "Recall",
    "SegmentRecord",
    "check_files",
    "read_index_manifest",
    "record_file",
    "write_index_manifest",
]

MANIFEST = "manifest.json"
FORMAT = 1
_VERSION = version("tertium")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Dtype(StrEnum):
    """How vectors are stored."""

    FLOAT32 = "float32"
    INT8 = "int8"  # a quarter of the size, and similarities that are off by about 0.0003


class FileRecord(_Frozen):
    """Size and hash of a file."""

    bytes: int
    sha256: str


class SegmentRecord(_Frozen):
    """Some texts with their ids and vectors, in a folder of that name."""

    name: str = Field(pattern=r"^segment-\d+$")  # never a path to somewhere else
    count: int = Field(ge=0)
    files: dict[Annotated[str, Field(pattern=r"^\w+\.\w+$")], FileRecord]


class GraphRecord(_Frozen):
    """A graph over the first ``count`` texts."""

    name: str = Field(pattern=r"^graph-\d+\.usearch$")
    count: int = Field(ge=0)
    file: FileRecord


class Recall(_Frozen):
    """Share of the true nearest ``at`` that the index found, for some of its own texts as queries.

    Attributes:
        at: how many neighbours.
        queries: how many texts.
        value: from 0 to 1.
        texts: how many the index held then.
        against: what vectors an exact search was made with: ``float32`` as the model gave them, or
            those that were stored as ``int8`` and no longer there otherwise.
    """

    at: int
    queries: int
    value: float
    texts: int
    against: Dtype


class IndexManifest(_Frozen):
    """An index: its model, its texts in the order of segments, its graph."""

    format: int = FORMAT
    tertium: str = _VERSION
    model: Identity
    dtype: Dtype
    count: int = 0
    segments: tuple[SegmentRecord, ...] = ()
    graph: GraphRecord | None = None
    recall: Recall | None = None  # measured when it was built or its graph grew; None: exact
    next: int = 1  # number of the next segment or graph

    def files(self) -> dict[str, FileRecord]:
        """All files by their places in the folder."""
        found = {
            f"{segment.name}/{name}": record
            for segment in self.segments
            for name, record in segment.files.items()
        }
        return found if self.graph is None else {**found, self.graph.name: self.graph.file}


def read_index_manifest(folder: Path) -> IndexManifest:
    """The manifest of the index in ``folder``."""
    path = folder / MANIFEST
    if not path.is_file():
        raise TertiumError(
            f"{folder} holds no index: there is no {MANIFEST}. Make one: tertium index build"
        )
    content = path.read_bytes()
    try:
        fields = json.loads(content)
        newer = fields.get("format", 0) > FORMAT
        found = None if newer else IndexManifest.model_validate(fields)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise TertiumError(
            f"{path} is damaged. Restore it from a copy, or build the index again."
        ) from error
    if found is None:
        raise TertiumError(
            f"{path}: format {fields['format']} was written by tertium {fields.get('tertium')}; "
            f"this is {_VERSION}, which reads up to format {FORMAT}. Upgrade tertium."
        )
    return found


def write_index_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Make ``manifest`` the one that counts, in one step that survives a loss of power."""
    with atomic_path(folder / MANIFEST, durable=True) as temporary:
        temporary.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def record_file(path: Path) -> FileRecord:
    """Bring a finished file to the disk, and note its size and hash."""
    sync(path)
    return FileRecord(bytes=path.stat().st_size, sha256=sha256(path))


def check_files(folder: Path, manifest: IndexManifest, *, contents: bool, intact: set[str]) -> None:
    """Raise unless all files are there and have their sizes; with ``contents``, their hashes too.

    Args:
        folder: where the index is.
        manifest: what it should hold.
        contents: compare hashes.
        intact: files that need no second look; those whose hashes agree are added.

    Raises:
        FileNotFoundError: one is missing, perhaps because another process has just replaced it.
        TertiumError: one is damaged.
    """
    for name, record in manifest.files().items():
        path = folder / name
        size = path.stat().st_size
        if size != record.bytes:
            raise TertiumError(
                f"{path} is damaged: {size:,} bytes instead of {record.bytes:,}. Restore it from a "
                "copy, or build the index again."
            )
        if not contents or name in intact:
            continue
        if sha256(path) != record.sha256:
            raise TertiumError(
                f"{path} is damaged: its hash is not the one in {MANIFEST}. Restore it from a "
                "copy, or build the index again."
            )
        intact.add(name)
