"""``manifest.json``: what an index holds, and which model made its vectors.

A file that the manifest does not name does not exist.
"""

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from tertium.errors import TertiumError
from tertium.models.base import Embedder
from tertium.models.vectors import vectors_fingerprint
from tertium.records.record import FileMark, Frozen, Record, read_record, write_record
from tertium.types import Kind

__all__ = [
    "MANIFEST",
    "Dtype",
    "GraphRecord",
    "Identity",
    "IndexFile",
    "IndexManifest",
    "Recall",
    "SegmentRecord",
    "check_files",
    "check_identity",
    "damaged",
    "identify",
    "read_index_manifest",
    "same_model",
    "write_index_manifest",
]

MANIFEST = "manifest.json"
_RESTORE = "Restore it from a copy, or build the index again."


class Dtype(StrEnum):
    """How vectors are stored."""

    FLOAT32 = "float32"
    INT8 = "int8"  # a quarter of the size, and similarities that are off by about 0.0003


class Identity(Frozen):
    """A model as an index knows it."""

    name: str
    pooling: str | None
    dimension: int
    fingerprint: str


class IndexFile(FileMark):
    """A file of an index."""

    model_config = ConfigDict(validate_by_name=True)

    size: int = Field(alias="bytes")


class SegmentRecord(Frozen):
    """Some texts with their ids and vectors, in a folder of that name."""

    name: str = Field(pattern=r"^segment-\d+$")  # never a path to somewhere else
    count: int = Field(ge=0)
    files: dict[Annotated[str, Field(pattern=r"^\w+\.\w+$")], IndexFile]


class GraphRecord(Frozen):
    """A graph over the first ``count`` texts."""

    name: str = Field(pattern=r"^graph-\d+\.usearch$")
    count: int = Field(ge=0)
    file: IndexFile


class Recall(Frozen):
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


class IndexManifest(Record):
    """An index: its model, its texts in the order of segments, its graph."""

    remedy: ClassVar[str] = f"The index is damaged. {_RESTORE}"

    model: Identity
    dtype: Dtype
    count: int = 0
    segments: tuple[SegmentRecord, ...] = ()
    graph: GraphRecord | None = None
    recall: Recall | None = None  # measured when it was built or its graph grew; None: exact
    next: int = 1  # number of the next segment or graph

    def files(self) -> dict[str, IndexFile]:
        """All files by their places in the folder."""
        found = {
            f"{segment.name}/{name}": record
            for segment in self.segments
            for name, record in segment.files.items()
        }
        return found if self.graph is None else {**found, self.graph.name: self.graph.file}


def damaged(path: Path, reason: str) -> TertiumError:
    """The error for what no longer makes sense."""
    return TertiumError(f"{path} is damaged: {reason}. {_RESTORE}")


def read_index_manifest(folder: Path) -> IndexManifest:
    """The manifest of the index in ``folder``."""
    path = folder / MANIFEST
    if not path.is_file():
        raise TertiumError(
            f"{folder} holds no index: there is no {MANIFEST}. Make one: tertium index build"
        )
    return read_record(path, IndexManifest)


def write_index_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Make ``manifest`` the one that counts, in one step that survives a loss of power."""
    write_record(folder / MANIFEST, manifest, durable=True)


def check_files(folder: Path, manifest: IndexManifest, *, contents: bool, intact: set[str]) -> None:
    """Raise unless all files are there and have their sizes; with ``contents``, their hashes too.

    Args:
        folder: where the index is.
        manifest: what it should hold.
        contents: compare hashes.
        intact: files whose hashes were compared before; those that agree now are added.

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


def identify(model: Embedder) -> Identity:
    """The model as an index knows it."""
    return Identity(
        name=model.name,
        pooling=None if model.pooling is None else str(model.pooling),
        dimension=model.dimension,
        fingerprint=vectors_fingerprint(model),
    )


def same_model(model: Embedder, known: Identity) -> bool:
    """Whether ``model`` makes the vectors that an index of ``known`` holds."""
    if model.dimension != known.dimension:
        return False
    if vectors_fingerprint(model) == known.fingerprint:
        return True
    return bool(model.members) and _former_fingerprint(model) == known.fingerprint


def check_identity(model: Embedder, known: Identity, *, index: object) -> None:
    """Raise unless ``model`` makes the vectors that the index holds; its name may be another."""
    if same_model(model, known):
        return
    here = identify(model)
    if here.dimension != known.dimension:
        what = f"vectors of width {here.dimension}, the index has {known.dimension}"
    elif here.pooling != known.pooling:
        what = f"the pooling {here.pooling}, the index has {known.pooling}"
    else:
        what = "other weights or settings"
    raise TertiumError(
        f"{index} was built with the model {known.name}, and {here.name} has {what}. Name the "
        "model that it was built with, or build the index again."
    )


def _former_fingerprint(model: Embedder) -> str:
    """What indexes of version 0.1 say: weights, pooling and dimension."""
    from tertium.models.fingerprint import hash_weights  # imports torch

    found = hashlib.sha256()
    for member in model.members:
        encoder = member.encoder
        found.update(f"member {member.weight!r}\n".encode() if model.kind is Kind.ENSEMBLE else b"")
        found.update(f"{encoder.pooling}\n{encoder.dimension}\n".encode())
        hash_weights(encoder.model, found)
    return found.hexdigest()
