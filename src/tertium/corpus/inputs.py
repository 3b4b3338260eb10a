"""Texts of a file with their ids, and tables of what was found, written as it is found."""

import contextlib
import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tertium.data.problems import DataError, Problem
from tertium.data.readers import iter_texts
from tertium.data.tables import no_formula, one_line, read_records
from tertium.errors import TertiumError
from tertium.files import atomic_path, check_ending

__all__ = ["TABLES", "Write", "iter_ids", "read_corpus", "table", "write_kept"]

TABLES = (".tsv", ".csv", ".jsonl")

Write = Callable[[Sequence[Any]], object]


def read_corpus(
    path: Path, *, column: str | None = None, id_column: str | None = None
) -> tuple[list[str], list[str]]:
    """Texts and ids of a file; without ``id_column`` rows are numbered from 1 on.

    In a text file the number is that of the line.
    """
    texts = list(iter_texts(path, column=column))
    if id_column is None:
        return texts, [str(number) for number in range(1, len(texts) + 1)]
    ids = list(iter_ids(path, id_column))
    seen: dict[str, int] = {}
    for row, name in enumerate(ids, 1):
        if seen.setdefault(name, row) != row:
            raise TertiumError(
                f"{path}: the id '{name}' is there twice, in rows {seen[name]} and {row}. Give "
                "every text an id of its own."
            )
    return texts, ids


def iter_ids(path: Path, column: str) -> Iterator[str]:
    """The ids in a column of a file, one a row."""
    wanted = column.strip().lower()
    for line, values in read_records(path):
        value = values.get(wanted)
        if value is None or not str(value).strip():
            remedy = f"needs an id in column {wanted}; found: {', '.join(values)}"
            raise DataError([Problem(str(path), line, wanted, None, remedy)])
        yield str(value)


@contextlib.contextmanager
def table(
    output: Path, columns: Sequence[str], *, spreadsheet_safe: bool = False
) -> Iterator[Write]:
    """Write rows to a .tsv, .csv or .jsonl file, whole or not at all.

    Args:
        output: where to.
        columns: their names.
        spreadsheet_safe: let no text of a .tsv or .csv file begin as a formula does.
    """
    check_ending(output, TABLES)
    ending = output.suffix.lower()
    with atomic_path(output) as temporary, _stream(temporary) as stream:
        write = _WRITERS[ending](stream, columns)
        if not spreadsheet_safe or ending == ".jsonl":
            yield write
        else:
            yield lambda row: write([no_formula(v) if isinstance(v, str) else v for v in row])


def write_kept(source: Path, output: Path, kept: Sequence[int], *, column: str | None) -> None:
    """Copy rows of a file: with all their columns into a table, as texts into a .txt file.

    Args:
        source: where the rows are.
        output: .txt, .tsv, .csv or .jsonl.
        kept: which rows, from 0 on.
        column: the column of texts.
    """
    wanted = set(kept)
    with atomic_path(output) as temporary, _stream(temporary) as stream:
        if output.suffix.lower() == ".txt":
            texts = enumerate(iter_texts(source, column=column))
            stream.writelines(one_line(text) + "\n" for row, text in texts if row in wanted)
            return
        records = (record for row, record in enumerate(read_records(source)) if row in wanted)
        if output.suffix.lower() == ".jsonl":
            stream.writelines(_json(record.values) + "\n" for record in records)
            return
        columns = tuple(next(read_records(source)).values)
        write = _WRITERS[output.suffix.lower()](stream, columns)
        for line, values in records:
            if values.keys() - set(columns):
                extra = ", ".join(sorted(values.keys() - set(columns)))
                raise TertiumError(
                    f"{source}: line {line} has {extra}, which the first row has not. Write to a "
                    ".jsonl file, whose rows may differ."
                )
            write([values.get(name) for name in columns])


def _tsv(stream: IO[str], columns: Sequence[str]) -> Write:
    stream.write("\t".join(columns) + "\n")
    return lambda row: stream.write("\t".join(one_line(_shown(value)) for value in row) + "\n")


def _csv(stream: IO[str], columns: Sequence[str]) -> Write:
    writer = csv.writer(stream)
    writer.writerow(columns)
    return lambda row: writer.writerow([_shown(value) for value in row])


def _jsonl(stream: IO[str], columns: Sequence[str]) -> Write:
    return lambda row: stream.write(_json(dict(zip(columns, row, strict=True))) + "\n")


_WRITERS = {".tsv": _tsv, ".csv": _csv, ".jsonl": _jsonl}


def _stream(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", errors="replace", newline="")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}"
    return value if isinstance(value, str) else _json(value)
