"""The folder of a job: its record, its Parquet shards, and the journal of finished shards."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict

from tertium.data.shards import (
    JOB,
    JOURNAL,
    Counts,
    Done,
    Shard,
    StoredJob,
    finished_shards,
    record_path,
)
from tertium.engines import Plan
from tertium.errors import DiskFullError, TertiumError
from tertium.files import sha256, sync, write_text
from tertium.jobs.source import SKIPPED, SourceRow
from tertium.models.tokens import valid_text
from tertium.progress import track
from tertium.records.decision import VERDICT, Decision, verdict_rows
from tertium.records.lock import lock
from tertium.records.record import Frozen, InputMark, read_record, write_record

__all__ = [
    "Job",
    "Journal",
    "Model",
    "ShardWriter",
    "check_options",
    "describe_shard",
    "disk_errors",
    "locked",
    "read_job",
    "shard_metadata",
    "sound_shards",
    "write_job",
]

_METADATA = b"tertium"
_PATIENCE = 2  # seconds for the workers of a killed process to end


class ShardWriter:
    """Writes blocks of rows to a Parquet file or buffer; a context manager.

    Args:
        sink: path or buffer.
        columns: names of the text columns.
        width: length of a vector, or None if the result is a score.
        dtype: number format of vectors.
        metadata: metadata of the file, under the key ``tertium``.
        decision: adds a decision, probability and grade to each score.
    """

    def __init__(
        self,
        sink: Path | BytesIO,
        *,
        columns: Sequence[str],
        width: int | None,
        dtype: str,
        metadata: dict[str, Any],
        decision: Decision | None = None,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number = pa.float16() if dtype == "float16" else pa.float32()
        result = (
            ("similarity", pa.float32())
            if width is None
            else ("embedding", pa.list_(number, width))
        )
        names = [("line", pa.int64()), *((name, pa.string()) for name in columns), result]
        self._decision = decision
        if decision is not None:
            kinds = (pa.string(), pa.float64(), pa.float64())
            names += zip(VERDICT, kinds, strict=True)
        self._schema = pa.schema(names, metadata={_METADATA: json.dumps(metadata).encode()})
        self._width = width
        self._dtype = np.dtype(dtype)
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            use_dictionary=list(columns),  # texts may repeat, numbers hardly ever
            write_statistics=["line"],
        )

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, items: Sequence[SourceRow], results: np.ndarray) -> None:
        """Add rows with their vectors or scores, as one row group."""
        import pyarrow as pa

        lines = pa.array([item.line for item in items], pa.int64())
        texts = [
            pa.array(map(valid_text, column), pa.string())
            for column in zip(*(item.texts for item in items), strict=True)
        ]
        values = pa.array(results.astype(self._dtype).ravel())
        if self._width is not None:
            values = pa.FixedSizeListArray.from_arrays(values, self._width)
        said: list[Any] = []
        if self._decision is not None:
            rows = verdict_rows(self._decision, results.tolist(), measure="score")
            kinds = self._schema.types[-len(VERDICT) :]
            said = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
        batch = pa.record_batch([lines, *texts, values, *said], schema=self._schema)
        self._writer.write_batch(batch)


def shard_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a shard."""
    import pyarrow.parquet as pq

    found: dict[str, Any] = json.loads(pq.read_schema(path).metadata[_METADATA])
    return found


def describe_shard(shard: Shard, content: Path | BytesIO, counts: Counts) -> Done:
    """The record of a shard that has just been written."""
    if isinstance(content, BytesIO):
        whole = content.getbuffer()
        return Done(shard.index, len(shard), len(whole), hashlib.sha256(whole).hexdigest(), counts)
    size = content.stat().st_size
    return Done(shard.index, len(shard), size, sha256(content), counts)


def _is_sound(folder: Path, shard: Shard, done: Done) -> bool:
    """Whether the file of ``shard`` is intact."""
    path = folder / shard.name
    if not path.is_file() or path.stat().st_size != done.size or done.rows != len(shard):
        return False
    return sha256(path) == done.sha256


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a disk error into a sentence that says how to resume."""
    try:
        yield
    except OSError as error:
        full = isinstance(error, DiskFullError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "no space left on this disk" if full else f"cannot be written ({error})"
        remedy = "Free some space" if full else "Fix the problem"
        raise TertiumError(
            f"{folder}: {what}. {remedy} and rerun the command: finished shards are kept."
        ) from error


class Model(Frozen):
    """A model as the user named it, and the hash of its files."""

    name: str
    sha256: str


class Job(StoredJob):
    """Everything that determines the output; the number of processes does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: InputMark
    model: Model
    options: dict[str, Any]
    engines: Plan = ()
    skipped: int


def read_job(folder: Path) -> Job | None:
    """The job in ``folder``, or None."""
    path = record_path(folder, JOB)
    return read_record(path, Job) if path.exists() else None


def write_job(folder: Path, job: Job) -> None:
    """Write ``_job.json`` atomically."""
    write_record(folder / JOB, job, durable=True)


def _check_folder(folder: Path) -> None:
    """Raise if the folder of a new job contains other files."""
    if folder.exists() and not folder.is_dir():
        raise TertiumError(f"{folder} is a file, but shards need a folder. Choose another name.")
    own = (path.name.startswith(".") or path.name == SKIPPED for path in folder.glob("*"))
    if not all(own):  # a job that was killed before it began leaves only these
        raise TertiumError(
            f"{folder} is not empty and contains no {JOB}. Choose another folder, or remove it."
        )


def check_options(folder: Path, job: Job, **now: Any) -> None:
    """Raise if the job in ``folder`` was started with different options.

    Args:
        folder: the folder of the job.
        job: the job as it was started.
        now: ``content``, the model's ``sha256``, and options by name.
    """
    before = {"content": job.content, "model": job.model.sha256, **job.options}
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        what = (
            f"the model ({job.model.name}) has changed"
            if name == "model"
            else f"{name.replace('_', '-')} was {_shown(old)} and is now {_shown(new)}"
        )
        raise TertiumError(
            f"{folder} belongs to another job: {what}. Rerun the old command, or choose another "
            "folder."
        )


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(str(value))


class Journal:
    """The finished shards of a folder.

    While a job runs, lines are appended as shards finish; ``close`` sorts them, so that the file
    does not depend on how it was made.
    """

    def __init__(self, folder: Path, done: Mapping[int, Done]) -> None:
        self._folder = folder
        self.done = dict(done)
        self._rewrite()

    def add(self, done: Done) -> None:
        """Record that a shard is finished, durably."""
        with disk_errors(self._folder), (self._folder / JOURNAL).open("a", encoding="utf-8") as s:
            s.write(done.to_json() + "\n")
            s.flush()
            os.fsync(s.fileno())
        self.done[done.shard] = done

    def close(self) -> None:
        """Sort the lines."""
        self._rewrite()

    def _rewrite(self) -> None:
        lines = [self.done[index].to_json() + "\n" for index in sorted(self.done)]
        with disk_errors(self._folder):
            write_text(self._folder / JOURNAL, "".join(lines), durable=True)


def sound_shards(folder: Path, shards: list[Shard], *, progress: bool | None) -> dict[int, Done]:
    """Finished shards whose files are intact; each file is read once."""
    known = finished_shards(folder)
    found = [shard for shard in shards if shard.index in known]
    return {
        shard.index: known[shard.index]
        for shard in track(found, label="checking shards", unit="shard", show=progress)
        if _is_sound(folder, shard, known[shard.index])
    }


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder for this process, and remove partial files of a killed one."""
    if not record_path(folder, JOB).exists():
        _check_folder(folder)
    created = not folder.exists()
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sync(folder.parent)
    with lock(folder / ".lock", protects=folder, wait=_PATIENCE):
        try:
            for name in ("part-", JOB, JOURNAL, SKIPPED):
                for left in folder.glob(f".{name}*"):
                    left.unlink(missing_ok=True)
            for name in (JOB, JOURNAL, SKIPPED):
                if (earlier := record_path(folder, name)).name != name:
                    earlier.rename(folder / name)
            yield
        finally:
            if created and not (folder / JOB).exists():  # the job has not begun
                shutil.rmtree(folder, ignore_errors=True)
