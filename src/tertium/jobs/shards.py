"""Shards as Parquet files: written whole, known by their hashes, found out when they change."""

import contextlib
import errno
import hashlib
import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tertium.data.shards import Counts, Done, Shard
from tertium.errors import DiskFullError, TertiumError
from tertium.files import sha256
from tertium.jobs.source import Item
from tertium.models.encoder import valid_text

__all__ = [
    "ShardWriter",
    "describe_shard",
    "disk_errors",
    "is_sound",
    "shard_metadata",
]

_METADATA = b"tertium"


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
    return Done(shard.index, len(shard), size, sha256(content), counts)


def is_sound(folder: Path, shard: Shard, done: Done) -> bool:
    """Whether the file of ``shard`` is there, byte for byte as it was written."""
    path = folder / shard.name
    if not path.is_file() or path.stat().st_size != done.size or done.rows != len(shard):
        return False
    return sha256(path) == done.sha256


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
