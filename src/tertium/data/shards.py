"""Folders of Parquet shards written by ``tertium encode`` and ``tertium score``.

Records begin with an underscore so that readers of Parquet folders take only the shards for data.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from tertium.errors import TertiumError, require
from tertium.records.record import Record, read_record

__all__ = [
    "JOB",
    "JOURNAL",
    "Content",
    "Counts",
    "Done",
    "ScoreBlock",
    "Shard",
    "StoredJob",
    "VectorBlock",
    "finished_job",
    "finished_shards",
    "iter_scores",
    "iter_texts",
    "iter_vectors",
    "plan",
    "read_vectors",
    "record_path",
]

JOB = "_job.json"
JOURNAL = "_shards.jsonl"


class Content(StrEnum):
    """The texts of a row."""

    TEXTS = "texts"
    PAIRS = "pairs"
    TRIPLES = "triples"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the texts in the output."""
        return {
            Content.TEXTS: ("text",),
            Content.PAIRS: ("sentence1", "sentence2"),
            Content.TRIPLES: ("sentence1", "sentence2", "condition"),
        }[self]


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop - 1`` of a job, counted from 0 over the good rows."""

    index: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """Its file.

        >>> Shard(7, 70, 80).name
        'part-000007.parquet'
        """
        return f"part-{self.index:06d}.parquet"


def plan(rows: int, *, size: int) -> list[Shard]:
    """Split ``rows`` into shards of ``size``, the last one shorter.

    >>> [(shard.start, shard.stop) for shard in plan(5, size=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    if size < 1:
        raise TertiumError(f"A shard needs at least one row, not {size}.")
    starts = range(0, rows, size)
    return [Shard(at, start, min(start + size, rows)) for at, start in enumerate(starts)]


class StoredJob(Record):
    """``_job.json``, as far as readers need it."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    remedy: ClassVar[str] = "This job cannot be resumed: name another folder, or remove this one."

    content: Content
    rows: int = Field(ge=0)
    shard_rows: int = Field(ge=1)

    @property
    def shards(self) -> list[Shard]:
        """The plan."""
        return plan(self.rows, size=self.shard_rows)


@dataclass(frozen=True)
class Counts:
    """Counts for a warning at the end; see ``TokenizationStats``.

    Attributes:
        cut: texts or triples that were too long.
        texts: distinct texts, window by window.
        limit: maximum number of tokens.
        unknown: texts without a token that the vocabulary knows.
        blank: triples without a condition.
        foreign: texts in a language other than the model's.
        looked: texts whose language was guessed.
    """

    cut: int = 0
    texts: int = 0
    limit: int = 0
    unknown: int = 0
    blank: int = 0
    foreign: int = 0
    looked: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Counts(**{**sums, "limit": max(self.limit, other.limit)})


@dataclass(frozen=True)
class Done:
    """A finished shard: its number, its rows, and the size and hash of its file."""

    shard: int
    rows: int
    size: int
    sha256: str
    counts: Counts

    def to_json(self) -> str:
        """The record as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Done":
        """Parse a line; raises ``ValueError`` if it is not a record."""
        try:
            entry = json.loads(line)
            return cls(
                shard=int(entry["shard"]),
                rows=int(entry["rows"]),
                size=int(entry["size"]),
                sha256=str(entry["sha256"]),
                counts=Counts(**{name: int(count) for name, count in entry["counts"].items()}),
            )
        except (TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not a record of a shard: {line[:60]!r}") from error


def record_path(folder: Path, name: str) -> Path:
    """The file of a record; earlier versions named it without the underscore."""
    path, earlier = folder / name, folder / name.removeprefix("_")
    return earlier if earlier.exists() and not path.exists() else path


def finished_shards(folder: Path) -> dict[int, Done]:
    """Records by shard, without an incomplete line that a killed process left."""
    path = record_path(folder, JOURNAL)
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            done = Done.from_json(line)
        except ValueError:
            continue
        found[done.shard] = done
    return found


def finished_job(folder: Path) -> tuple[StoredJob, list[Shard]]:
    """The job of ``folder`` and its shards; raises unless all shards exist."""
    path = record_path(folder, JOB)
    if not path.exists():
        raise TertiumError(f"{folder} holds no {JOB}: no folder that tertium encode or score made.")
    job = read_record(path, StoredJob)
    names = {shard: Shard(shard, 0, 0).name for shard in finished_shards(folder)}
    total = -(-job.rows // job.shard_rows)
    there = sum(0 <= shard < total and (folder / name).is_file() for shard, name in names.items())
    if there < total:
        raise TertiumError(
            f"{folder} has {there:,} of {total:,} shards. Run the command that began it "
            "again: it resumes where it was stopped."
        )
    return job, job.shards


@dataclass(frozen=True)
class VectorBlock:
    """Some consecutive rows.

    Attributes:
        lines: line of each text in the input, counted from 1.
        texts: the encoded texts.
        vectors: one row per text.
    """

    lines: NDArray[np.int64]
    texts: list[str]
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class ScoreBlock:
    """Some consecutive rows.

    Attributes:
        lines: line of each row in the input, counted from 1.
        texts: pairs, or triples with the condition last.
        scores: one score per row.
    """

    lines: NDArray[np.int64]
    texts: list[tuple[str, ...]]
    scores: NDArray[np.float32]


def iter_vectors(folder: Path | str, *, rows: int = 4096) -> Iterator[VectorBlock]:
    """Blocks of at most ``rows`` vectors from the output of ``tertium encode -o DIR/``, in order.

    Only one block is in memory. Vectors stored as float16 are converted to float32.
    """
    for batch in _batches(Path(folder), rows, "embedding"):
        column = batch.column("embedding")
        flat = column.flatten().to_numpy(zero_copy_only=False)
        vectors = flat.astype(np.float32, copy=False).reshape(len(batch), -1)
        yield VectorBlock(_lines(batch), batch.column("text").to_pylist(), vectors)


def read_vectors(folder: Path | str) -> NDArray[np.float32]:
    """All vectors as one matrix; row i belongs to the i-th good row of the input."""
    job, _ = finished_job(Path(folder))
    matrix: NDArray[np.float32] | None = None
    start = 0
    for block in iter_vectors(folder):
        if matrix is None:
            matrix = np.empty((job.rows, block.vectors.shape[1]), np.float32)
        matrix[start : start + len(block.vectors)] = block.vectors
        start += len(block.vectors)
    if matrix is None or start != job.rows:
        raise TertiumError(f"{folder} has {start:,} of {job.rows:,} rows. Make it again.")
    return matrix


def iter_texts(folder: Path | str) -> Iterator[str]:
    """The texts in a folder of vectors, in order, without reading the vectors."""
    for batch in _batches(Path(folder), 4096, "embedding", columns=["text"]):
        yield from batch.column("text").to_pylist()


def iter_scores(folder: Path | str, *, rows: int = 4096) -> Iterator[ScoreBlock]:
    """Blocks of at most ``rows`` scores from the output of ``tertium score -o DIR/``, in order."""
    job, _ = finished_job(Path(folder))
    for batch in _batches(Path(folder), rows, "similarity"):
        columns = (batch.column(name).to_pylist() for name in job.content.columns)
        scores = batch.column("similarity").to_numpy(zero_copy_only=False)
        yield ScoreBlock(_lines(batch), list(zip(*columns, strict=True)), scores)


def _batches(
    folder: Path, rows: int, result: str, *, columns: list[str] | None = None
) -> Iterator[Any]:
    require("scale", purpose="Reading shards", packages=("pyarrow",))
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    job, shards = finished_job(folder)
    if (job.content is Content.TEXTS) != (result == "embedding"):
        what, command = ("scores", "score") if result == "embedding" else ("vectors", "encode")
        raise TertiumError(f"{folder} holds {what}, made by tertium {command}.")
    for shard in shards:
        try:
            with ParquetFile(folder / shard.name) as file:
                yield from file.iter_batches(batch_size=rows, columns=columns)
        except (ArrowException, OSError) as error:
            raise TertiumError(
                f"{folder / shard.name} cannot be read ({error}). Run the command that made the "
                "folder again: it finds damaged shards and rebuilds them."
            ) from error


def _lines(batch: Any) -> NDArray[np.int64]:
    lines: NDArray[np.int64] = batch.column("line").to_numpy()
    return lines
