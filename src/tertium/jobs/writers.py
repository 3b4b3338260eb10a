"""Write vectors and scores to files, atomically and in constant memory."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tertium.data.tables import SCORES, VECTORS, check_format, no_formula, row_writer, to_json
from tertium.errors import TertiumError
from tertium.files import atomic_path, new_matrix
from tertium.models.base import Embedder, Model
from tertium.models.tokens import TokenizationStats, chunks
from tertium.progress import bar
from tertium.records.decision import VERDICT, verdict_rows

__all__ = ["write_scores", "write_vectors"]

_WINDOW = 4096


def write_vectors(
    encoder: Embedder,
    texts: Callable[[], Iterable[str]],
    output: Path,
    *,
    normalize: bool = False,
    kept: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
) -> int:
    """Encode ``texts()`` into a .npy or .parquet file; return the row count.

    Args:
        encoder: computes the vectors.
        texts: returns a new iterator over the texts; a first pass counts them.
        output: the extension determines the format.
        normalize: scale every vector to length 1.
        kept: further columns of each text, for a .parquet file, as for :func:`write_scores`.
    """
    check_format(output, VECTORS, what="vectors")
    total = sum(1 for _ in texts())
    with (
        atomic_path(output) as temporary,
        bar(total=total, label="encoding", unit="text") as shown,
    ):
        blocks = _blocks(encoder, texts(), shown.update, normalize=normalize)
        if output.suffix == ".npy":
            _write_npy(temporary, blocks, total, encoder.dimension)
        else:
            extra = _Kept(kept() if kept else (), ("text", "embedding"))
            _write_parquet(temporary, blocks, encoder.dimension, extra)
    return total


def write_scores(
    scorer: Model,
    items: Iterable[tuple[str, ...]],
    output: Path,
    *,
    spreadsheet_safe: bool = False,
    kept: Iterable[Mapping[str, Any]] = (),
) -> int:
    """Score pairs or triples into a .tsv, .csv, .jsonl or .parquet file; return the row count.

    Args:
        scorer: computes the scores.
        items: pairs, or triples for a conditional scorer.
        output: the extension determines the format.
        spreadsheet_safe: escape texts in a .tsv or .csv file that look like formulas.
        kept: further columns of each item, written after its score; the first item determines
            which. A column whose name is taken is renamed to ``input_…``.
    """
    check_format(output, SCORES, what="scores")
    count = 0
    conditional = scorer.takes_conditions
    truncation = TokenizationStats(unit="triple") if conditional else TokenizationStats()
    grade: Callable[..., np.ndarray] = scorer.score
    columns = ("sentence1", "sentence2", *(["condition"] if conditional else []), "similarity")
    decision = scorer.decision
    columns += () if decision is None else VERDICT
    extra = _Kept(kept, columns)
    sink = _parquet_rows if output.suffix == ".parquet" else partial(_text_rows, output.suffix)
    written = no_formula if spreadsheet_safe and output.suffix in (".tsv", ".csv") else str
    with (
        atomic_path(output) as temporary,
        sink(temporary, (*columns, *extra.names)) as write,
        bar(total=None, label="scoring", unit="pair") as shown,
    ):
        for window in chunks(items, _WINDOW):
            scores = grade(window, progress=False, truncation=truncation)
            said: list[tuple[Any, ...]] = [()] * len(window)
            if decision is not None:
                said = verdict_rows(decision, scores.tolist(), measure="score")
            rows = zip(window, scores, said, extra.take(len(window)), strict=True)
            write(
                [
                    (*map(written, texts), float(score), *verdict, *map(_cell(written), more))
                    for texts, score, verdict, more in rows
                ]
            )
            count += len(window)
            shown.update(len(window))
    truncation.report()
    return count


Row = tuple[Any, ...]  # texts, score, verdict, and further columns
Columns = tuple[str, ...]
RowSink = Callable[[list[Row]], None]
_SCORE = "similarity"


class _Kept:
    """Columns of the input that are copied to the output."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], taken: Columns) -> None:
        rest = iter(rows)
        first = next(rest, None)
        self._given = first is not None
        self._rows = rest if first is None else itertools.chain([first], rest)
        self.keys = tuple(first or ())
        self.names = tuple(f"input_{key}" if key in taken else key for key in self.keys)

    def take(self, count: int) -> list[tuple[Any, ...]]:
        """The columns of the next items; empty if none are kept."""
        if not self._given:
            return [()] * count
        return [self._values(row) for row in itertools.islice(self._rows, count)]

    def _values(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        strange = [key for key in row if key not in self.keys]
        if strange:
            raise TertiumError(
                f"A row has the column {strange[0]}, which the first row lacks: the first row must "
                "have every column."
            )
        return tuple(row.get(key) for key in self.keys)


def _cell(written: Callable[[str], str]) -> Callable[[Any], Any]:
    return lambda value: written(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    """A value as a cell of a text table."""
    if value is None or isinstance(value, str):
        return value or ""
    return to_json(value)


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
    path: Path, blocks: Iterator[tuple[list[str], np.ndarray]], width: int, extra: _Kept
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), width)
    names = [(name, pa.string()) for name in extra.names]
    schema = pa.schema([("text", pa.string()), ("embedding", vector), *names])
    with pq.ParquetWriter(path, schema) as writer:
        for texts, vectors in blocks:
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), width)
            rows = extra.take(len(texts))
            more = [_strings(values) for values in zip(*rows, strict=True)]
            batch = pa.record_batch([pa.array(texts, pa.string()), column, *more], schema=schema)
            writer.write_batch(batch)


def _strings(values: Iterable[Any]) -> Any:
    import pyarrow as pa

    return pa.array([None if value is None else _text(value) for value in values], pa.string())


@contextlib.contextmanager
def _text_rows(kind: str, path: Path, columns: Columns) -> Iterator[RowSink]:
    ours = () if kind == ".jsonl" else _numbers(columns)

    def cells(row: Sequence[Any]) -> list[str]:
        return [
            f"{value:.6f}" if place in ours and value is not None else _text(value)
            for place, value in enumerate(row)
        ]

    with path.open("w", encoding="utf-8", newline="") as stream:
        write = row_writer(stream, kind, columns, cells=cells)

        def write_all(rows: list[Row]) -> None:
            for row in rows:
                write(row)

        yield write_all


def _numbers(columns: Columns) -> tuple[int, ...]:
    """Where the score is and, with a decision, probability and grade."""
    at = columns.index(_SCORE)
    return (at, at + 2, at + 3) if columns[at + 1 : at + 4] == VERDICT else (at,)


@contextlib.contextmanager
def _parquet_rows(path: Path, columns: Columns) -> Iterator[RowSink]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    at, *rest = _numbers(columns)
    kinds = {at: pa.float32(), **dict.fromkeys(rest, pa.float64())}
    schema = pa.schema(
        [(name, kinds.get(place, pa.string())) for place, name in enumerate(columns)]
    )
    with pq.ParquetWriter(path, schema) as writer:

        def write(rows: list[Row]) -> None:
            values = [
                pa.array(column, pa.float64()).cast(kinds[place])
                if place in kinds
                else _strings(column)
                for place, column in enumerate(zip(*rows, strict=True))
            ]
            writer.write_batch(pa.record_batch(values, schema=schema))

        yield write
