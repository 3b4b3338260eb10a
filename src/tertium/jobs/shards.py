"""Shards as Parquet files: written whole, known by their hashes, found out when they change."""

import contextlib
import errno
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tertium.errors import DiskFullError, TertiumError
from tertium.jobs.plan import Shard
from tertium.jobs.source import Item
from tertium.models.encoder import valid_text

__all__ = [
    "Counts",
    "Done",
    "ShardWriter",
    "describe_shard",
    "disk_errors",
    "is_sound",
    "shard_metadata",
]

_METADATA = b"tertium"


@dataclass(frozen=True)
class Counts:
    """What a warning at the end counts; see ``Truncation``.

    Attributes:
        cut: texts or triples that were too long.
        texts: distinct ones, window by window.
        limit: how many tokens are read.
        unknown: texts of which the vocabulary knows nothing.
        blank: triples without a condition.
    """

    cut: int = 0
    texts: int = 0
    limit: int = 0
    unknown: int = 0
    blank: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Counts(**{**sums, "limit": max(self.limit, other.limit)})


@dataclass(frozen=True)
class Done:
    """A finished shard: its number, its rows, and how to know that its file is whole."""

    shard: int
    rows: int
    size: int
    sha256: str
    counts: Counts

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Done":
        """The line read back; ``ValueError`` if it is none."""
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


class ShardWriter:
    """Blocks of rows into one Parquet file, or a buffer in memory; a context.

    Args:
        sink: path or buffer.
        columns: names of the texts of a row.
        width: length of a vector, or None where the result is one score.
        dtype: of vectors.
        metadata: what the file says about itself, under the key ``tertium``.
    """

    def __init__(
        self,
        sink: Path | BytesIO,
        *,
        columns: Sequence[str],
        width: int | None,
        dtype: str,
        metadata: dict[str, Any],
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
        self._schema = pa.schema(names, metadata={_METADATA: json.dumps(metadata).encode()})
        self._width = width
        self._dtype = np.dtype(dtype)
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            use_dictionary=list(columns),  # texts may repeat, numbers hardly do
            write_statistics=["line"],
        )

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, items: Sequence[Item], results: np.ndarray) -> None:
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
        self._writer.write_batch(pa.record_batch([lines, *texts, values], schema=self._schema))


def shard_metadata(path: Path) -> dict[str, Any]:
    """What a shard says about itself."""
    import pyarrow.parquet as pq

    found: dict[str, Any] = json.loads(pq.read_schema(path).metadata[_METADATA])
    return found


def describe_shard(shard: Shard, content: Path | BytesIO, counts: Counts) -> Done:
    """The record of a shard that has just been written."""
    if isinstance(content, BytesIO):
        whole = content.getbuffer()
        return Done(shard.index, len(shard), len(whole), hashlib.sha256(whole).hexdigest(), counts)
    size = content.stat().st_size
    return Done(shard.index, len(shard), size, _digest(content), counts)


def is_sound(folder: Path, shard: Shard, done: Done) -> bool:
    """Whether the file of ``shard`` is there, byte for byte as it was written."""
    path = folder / shard.name
    if not path.is_file() or path.stat().st_size != done.size or done.rows != len(shard):
        return False
    return _digest(path) == done.sha256


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """An error of the disk under ``folder`` as a sentence that says how to go on."""
    try:
        yield
    except OSError as error:
        full = isinstance(error, DiskFullError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "no space is left on this disk" if full else f"cannot be written ({error})"
        remedy = "Free some space" if full else "Fix that"
        raise TertiumError(
            f"{folder}: {what}. {remedy} and run the same command: finished shards are kept."
        ) from error


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
