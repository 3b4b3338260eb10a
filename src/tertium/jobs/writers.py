"""Vectors and scores to files, in constant memory, each file whole or absent."""

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from tertium.data.tables import SCORES, VECTORS, check_format, no_formula, one_line
from tertium.files import atomic_path, new_matrix
from tertium.models.base import Embedder, Model
from tertium.models.tokens import TokenizationStats, chunks
from tertium.progress import bar

__all__ = ["write_scores", "write_vectors"]

_WINDOW = 4096


def write_vectors(
    encoder: Embedder,
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
    check_format(output, VECTORS, what="vectors")
    total = sum(1 for _ in texts())
    with (
        atomic_path(output) as temporary,
        bar(total=total, label="encoding", unit="text") as shown,
    ):
        blocks = _blocks(encoder, texts(), shown.update, normalize=normalize)
        writers[output.suffix](temporary, blocks, total, encoder.dimension)
    return total


def write_scores(
    scorer: Model,
    items: Iterable[tuple[str, ...]],
    output: Path,
    *,
    spreadsheet_safe: bool = False,
) -> int:
    """Score pairs or triples into a .tsv, .csv, .jsonl or .parquet file; return the row count.

    Args:
        scorer: makes the scores.
        items: pairs, or for a conditional scorer triples.
        output: the ending chooses the format.
        spreadsheet_safe: let no text of a .tsv or .csv file begin as a formula does.
    """
    writers: dict[str, Callable[[Path, Columns], contextlib.AbstractContextManager[_RowSink]]] = {
        ".tsv": _delimited_tsv,
        ".csv": _delimited_csv,
        ".jsonl": _jsonl,
        ".parquet": _parquet_rows,
    }
    check_format(output, SCORES, what="scores")
    count = 0
    conditional = scorer.takes_conditions
    truncation = TokenizationStats(unit="triple") if conditional else TokenizationStats()
    grade: Callable[..., np.ndarray] = scorer.score
    columns = ("sentence1", "sentence2", *(["condition"] if conditional else []), "similarity")
    written = no_formula if spreadsheet_safe and output.suffix in (".tsv", ".csv") else str
    with (
        atomic_path(output) as temporary,
        writers[output.suffix](temporary, columns) as write,
        bar(total=None, label="scoring", unit="pair") as shown,
    ):
        for window in chunks(items, _WINDOW):
            scores = grade(window, progress=False, truncation=truncation)
            rows = zip(window, scores, strict=True)
            write([(*map(written, texts), float(score)) for texts, score in rows])
            count += len(window)
            shown.update(len(window))
    truncation.report()
    return count


Row = tuple[str | float, ...]  # texts, and the score last
Columns = tuple[str, ...]


class _RowSink(Protocol):
    def __call__(self, rows: list[Row], /) -> None: ...


def _blocks(
    encoder: Embedder,
    texts: Iterable[str],
    done: Callable[[int], object],
    *,
    normalize: bool,
) -> Iterator[tuple[list[str], np.ndarray]]:
    truncation = TokenizationStats()
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
    matrix = new_matrix(path, np.float32, (total, width))
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
def _delimited_tsv(path: Path, columns: Columns) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write("\t".join(columns) + "\n")

        def write(rows: list[Row], /) -> None:
            for *texts, similarity in rows:
                fields = [*(one_line(str(text)) for text in texts), f"{similarity:.6f}"]
                stream.write("\t".join(fields) + "\n")

        yield write


@contextlib.contextmanager
def _delimited_csv(path: Path, columns: Columns) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        yield lambda rows: writer.writerows([(*texts, f"{s:.6f}") for *texts, s in rows])


@contextlib.contextmanager
def _jsonl(path: Path, columns: Columns) -> Iterator[_RowSink]:
    with path.open("w", encoding="utf-8") as stream:

        def write(rows: list[Row], /) -> None:
            for row in rows:
                record = dict(zip(columns, row, strict=True))
                stream.write(json.dumps(record, ensure_ascii=False) + "\n")

        yield write


@contextlib.contextmanager
def _parquet_rows(path: Path, columns: Columns) -> Iterator[_RowSink]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [*(pa.string() for _ in columns[1:]), pa.float32()]
    schema = pa.schema(zip(columns, kinds, strict=True))
    with pq.ParquetWriter(path, schema) as writer:

        def write(rows: list[Row], /) -> None:
            *texts, scores = (pa.array(column) for column in zip(*rows, strict=True))
            writer.write_batch(pa.record_batch([*texts, scores.cast(pa.float32())], schema=schema))

        yield write
