"""Vectors and scores to files, in constant memory, each file whole or absent."""

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from tertium.encoders import Encoder
from tertium.encoders.batching import chunks
from tertium.encoders.encoder import Truncation
from tertium.errors import TertiumError, require
from tertium.files import atomic_path
from tertium.inference.ensemble import Ensemble
from tertium.inference.pair import PairScorer
from tertium.progress import bar
from tertium.types import TextPair

__all__ = ["write_scores", "write_vectors"]

_WINDOW = 4096


def write_vectors(
    encoder: Encoder | PairScorer | Ensemble,
    texts: Callable[[], Iterable[str]],
    output: Path,
    *,
    normalize: bool = False,
) -> int:
    """Encode ``texts()`` into a .npy or .parquet file and return how many rows there are.

    Args:
        encoder: makes the vectors.
        texts: gives a fresh iterator over the texts; a .npy file is sized by a first pass.
        output: the ending chooses the format.
        normalize: scale every vector to length 1.
    """
    writers = {".npy": _write_npy, ".parquet": _write_parquet}
    if output.suffix not in writers:
        raise TertiumError(f"{output}: vectors go to .npy or .parquet files.")
    if output.suffix == ".parquet":
        require("scale", purpose="Writing Parquet", packages=("pyarrow",))
    total = sum(1 for _ in texts())
    with (
        atomic_path(output) as temporary,
        bar(total=total, label="encoding", unit="text") as shown,
    ):
        blocks = _blocks(encoder, texts(), shown.update, normalize=normalize)
        writers[output.suffix](temporary, blocks, total, encoder.dimension)
    return total


def write_scores(
    scorer: Encoder | PairScorer | Ensemble, pairs: Iterable[TextPair], output: Path
) -> int:
    """Score ``pairs`` into a .tsv, .csv, .jsonl or .parquet file and return the row count."""
    writers: dict[str, Callable[[Path], contextlib.AbstractContextManager[_RowSink]]] = {
        ".tsv": _delimited_tsv,
        ".csv": _delimited_csv,
        ".jsonl": _jsonl,
        ".parquet": _parquet_rows,
    }
    if output.suffix not in writers:
        raise TertiumError(f"{output}: scores go to .tsv, .csv, .jsonl or .parquet files.")
    if output.suffix == ".parquet":
        require("scale", purpose="Writing Parquet", packages=("pyarrow",))
    count = 0
    truncation = Truncation()
    with (
        atomic_path(output) as temporary,
        writers[output.suffix](temporary) as write,
        bar(total=None, label="scoring", unit="pair") as shown,
    ):
        for window in chunks(pairs, _WINDOW):
            scores = scorer.score(window, progress=False, truncation=truncation)
            write([(a, b, float(s)) for (a, b), s in zip(window, scores, strict=True)])
            count += len(window)
            shown.update(len(window))
    truncation.report()
    return count


Row = tuple[str, str, float]
_COLUMNS = ("sentence1", "sentence2", "similarity")


class _RowSink(Protocol):
    def __call__(self, rows: list[Row], /) -> None: ...


def _blocks(
    encoder: Encoder | PairScorer | Ensemble,
    texts: Iterable[str],
    done: Callable[[int], object],
    *,
    normalize: bool,
) -> Iterator[tuple[list[str], np.ndarray]]:
    truncation = Truncation()
    for window in chunks(texts, _WINDOW):
        vectors = encoder.encode(window, normalize=normalize, progress=False, truncation=truncation)
        yield window, vectors
        done(len(window))
    truncation.report()


def _write_npy(
    path: Path, blocks: Iterator[tuple[list[str], np.ndarray]], total: int, width: int
) -> None:
    if not total:  # a memory map cannot be empty
        with path.open("wb") as stream:
            np.save(stream, np.empty((0, width), np.float32))
        return
    matrix = np.lib.format.open_memmap(path, "w+", np.dtype(np.float32), (total, width))
    start = 0
    for _, vectors in blocks:
        matrix[start : start + len(vectors)] = vectors
        start += len(vectors)
    matrix.flush()


def _write_parquet(
    path: Path, blocks: Iterator[tuple[list[str], np.ndarray]], total: int, width: int
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), width)
    schema = pa.schema([("text", pa.string()), ("embedding", vector)])
    with pq.ParquetWriter(path, schema) as writer:
        for texts, vectors in blocks:
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
            writer.write_batch(pa.record_batch([pa.array(texts), column], schema=schema))


@contextlib.contextmanager
def _delimited_tsv(path: Path) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write("\t".join(_COLUMNS) + "\n")

        def write(rows: list[Row], /) -> None:
            for first, second, similarity in rows:
                stream.write(f"{_flat(first)}\t{_flat(second)}\t{similarity:.6f}\n")

        yield write


@contextlib.contextmanager
def _delimited_csv(path: Path) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(_COLUMNS)
        yield lambda rows: writer.writerows([(a, b, f"{s:.6f}") for a, b, s in rows])


@contextlib.contextmanager
def _jsonl(path: Path) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8") as stream:

        def write(rows: list[Row], /) -> None:
            for row in rows:
                record = dict(zip(_COLUMNS, row, strict=True))
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")

        yield write


@contextlib.contextmanager
def _parquet_rows(path: Path) -> Iterator[_RowSink]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(zip(_COLUMNS, [pa.string(), pa.string(), pa.float32()], strict=True))
    with pq.ParquetWriter(path, schema) as writer:

        def write(rows: list[Row], /) -> None:
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            columns[2] = columns[2].cast(pa.float32())
            writer.write_batch(pa.record_batch(columns, schema=schema))

        yield write


def _flat(text: str) -> str:
    """Tabs and line breaks cannot stand in a TSV field: white space there becomes one space."""
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text
