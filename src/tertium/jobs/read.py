"""Folders of shards, read back in the order of the input."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError, require
from tertium.jobs.journal import finished_job
from tertium.jobs.source import Content

__all__ = [
    "ScoreBlock",
    "VectorBlock",
    "iter_scores",
    "iter_texts",
    "iter_vectors",
    "read_vectors",
]


@dataclass(frozen=True)
class VectorBlock:
    """Some consecutive rows.

    Attributes:
        lines: where each text stands in the input, counted from 1.
        texts: what was encoded.
        vectors: one row each.
    """

    lines: NDArray[np.int64]
    texts: list[str]
    vectors: NDArray[np.float32]


@dataclass(frozen=True)
class ScoreBlock:
    """Some consecutive rows.

    Attributes:
        lines: where each row stands in the input, counted from 1.
        texts: pairs, or triples with their condition last.
        scores: one each.
    """

    lines: NDArray[np.int64]
    texts: list[tuple[str, ...]]
    scores: NDArray[np.float32]


def iter_vectors(folder: Path | str, *, rows: int = 4096) -> Iterator[VectorBlock]:
    """Blocks of at most ``rows`` vectors of what ``tertium encode -o DIR/`` made, in order.

    Only one block is in memory. Vectors kept as float16 come as float32.
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


def iter_texts(folder: Path | str, *, rows: int = 4096) -> Iterator[str]:
    """The texts whose vectors a folder holds, in order; vectors are not read."""
    for batch in _batches(Path(folder), rows, "embedding", columns=["text"]):
        yield from batch.column("text").to_pylist()


def iter_scores(folder: Path | str, *, rows: int = 4096) -> Iterator[ScoreBlock]:
    """Blocks of at most ``rows`` scores of what ``tertium score -o DIR/`` made, in order."""
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
                "folder again: it finds damaged shards and makes them anew."
            ) from error


def _lines(batch: Any) -> NDArray[np.int64]:
    lines: NDArray[np.int64] = batch.column("line").to_numpy()
    return lines
