"""The request, execution and result of a bulk job."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tertium.engines import LOADER, check_device, engine_name, require_engine
from tertium.errors import TertiumError
from tertium.files import existing_file, sha256
from tertium.jobs.source import OnError, Source
from tertium.models.names import folders_below, resolve
from tertium.records.manifest import FILE_NAME, read_manifest
from tertium.types import EngineName

__all__ = ["Execution", "Finished", "Request", "hash_model_files"]

# Files that determine results: weights, settings and vocabularies, but not cards and pictures.
_ENDINGS = (".safetensors", ".bin", ".json", ".txt", ".model", ".spm", ".npy")
_LOADING = {"engine": "default"}  # defaults of ``tertium.load`` other than None


@dataclass(frozen=True)
class Request:
    """What a job produces; all of this determines the output.

    Attributes:
        source: the input.
        folder: the output folder.
        model: reserved name, folder or hub id.
        normalize: scale vectors to length 1.
        dtype: ``float32`` or ``float16``, for vectors.
        on_error: how to treat bad rows.
        shard_rows: rows per shard (default: depends on the number of rows).
        loading: arguments of ``tertium.load``.
        loader: ``module:function`` to call instead of it.
    """

    source: Source
    folder: Path
    model: str
    normalize: bool = False
    dtype: str = "float32"
    on_error: OnError = OnError.FAIL
    shard_rows: int | None = None
    loading: Mapping[str, Any] = field(default_factory=dict)
    loader: str = LOADER

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float16"):
            raise TertiumError(f"dtype must be float32 or float16, not {self.dtype}.")
        if self.shard_rows is not None and self.shard_rows < 1:
            raise TertiumError(f"A shard needs at least one row, not {self.shard_rows}.")
        check_device(self.engine, self.loading.get("device"))
        require_engine(self.engine)
        existing_file(self.source.path)

    @property
    def engine(self) -> EngineName:
        """The engine that runs the model."""
        return engine_name(self.loading.get("engine", EngineName.DEFAULT))

    @property
    def plain_loading(self) -> dict[str, Any]:
        """Arguments of ``tertium.load`` except the engine."""
        return {name: value for name, value in self.loading.items() if name != "engine"}

    @property
    def options(self) -> dict[str, Any]:
        """Everything that identifies a job besides its input and model."""
        own: dict[str, Any] = {
            "column": self.source.column,
            "normalize": self.normalize,
            "dtype": self.dtype,
            "on_error": str(self.on_error),
        }
        columns = self.source.columns.options + ["--strip-html"] * self.source.strip_html
        if columns:  # jobs of earlier versions have none
            own["columns"] = columns
        given = {name: value for name, value in self.loading.items() if value != _LOADING.get(name)}
        return {**own, **given}


@dataclass(frozen=True)
class Execution:
    """How a job runs; none of this affects the output.

    Attributes:
        workers: number of workers (default: one per processor, at most eight; one on a GPU).
        threads: threads per worker.
        cluster: ``ray``, or None for processes on this machine.
        address: address of a running cluster.
        start_method: start method of processes (default: ``spawn``).
    """

    workers: int | None = None
    threads: int = 1
    cluster: str | None = None
    address: str | None = None
    start_method: str | None = None

    def __post_init__(self) -> None:
        if self.cluster not in (None, "ray"):
            raise TertiumError(f"Unknown cluster '{self.cluster}': only ray is supported.")
        if self.address is not None and self.cluster is None:
            raise TertiumError("--ray-address needs --engine-cluster ray.")
        if (self.workers is not None and self.workers < 1) or self.threads < 1:
            raise TertiumError("A job needs at least one worker with at least one thread.")


@dataclass(frozen=True)
class Finished:
    """The result of a job.

    Attributes:
        folder: the output folder.
        rows: number of rows in all shards.
        skipped: number of bad rows that were skipped.
        shards: number of shards.
        made: how many of them this call wrote; the others were finished before.
        about: metadata of the shards: ``model`` and ``dimension`` or ``scale``.
    """

    folder: Path
    rows: int
    skipped: int
    shards: int
    made: int
    about: dict[str, Any]


def hash_model_files(name: str, *, revision: str | None = None) -> str:
    """One hash of all files that determine a model's results, including an adapter's base.

    Unlike ``Model.fingerprint`` it does not load the model: a finished job is recognised at once.
    """
    found = hashlib.sha256()
    for folder in _folders(resolve(name, revision=revision)):
        for path in sorted(folder.rglob("*")):
            own = "engines" not in path.relative_to(folder).parts  # exports have their own hashes
            if own and path.suffix in _ENDINGS and path.is_file():
                place = path.relative_to(folder).as_posix()
                found.update(f"{place}\0{sha256(path)}\n".encode())
    return found.hexdigest()


def _folders(folder: Path) -> list[Path]:
    """A model's folder, and those of the models that it builds on."""
    found = [folder]
    for known in found:  # grows meanwhile: a base may have a base of its own
        for path in sorted(known.rglob(FILE_NAME)):
            manifest = read_manifest(path.parent)
            below = [] if manifest is None else folders_below(path.parent, manifest.details)
            found += [other for other in below if other not in found]
    return found
