"""Reads TSV, CSV, JSONL, Parquet and plain text as records and problems, one at a time.

Names of columns are case-insensitive, and white space and hyphens in them count as underscores:
``Text 1`` is ``text_1``. Lines are counted from 1, including the header; the line of a CSV record
that spans several lines is its first. Text formats may be gzipped.
"""

import csv
import gzip
import json
import re
import shlex
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from tertium.errors import TertiumError, require
from tertium.files import existing_file

__all__ = [
    "FORMATS",
    "SCORES",
    "VECTORS",
    "DataError",
    "Problem",
    "Record",
    "check_format",
    "check_stored_vectors",
    "column_key",
    "ending",
    "header_line",
    "no_formula",
    "one_line",
    "read_lines",
    "read_records",
    "row_writer",
    "scan",
    "to_json",
]

VECTORS = (".npy", ".parquet")  # formats of vectors
SCORES = (".tsv", ".csv", ".jsonl", ".parquet")  # formats of scores
_FORMULA = tuple("=+-@")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_SEPARATORS = re.compile(r"[\s-]+")
_LONGEST_FIELD = 64 << 20  # characters of a CSV field, in case a quote never ends
_SHOWN = 60  # characters of a bad value to show
_UNSEPARATED = {".csv": re.compile(r".*[;\t].*|\S+(\|\S+)+"), ".tsv": re.compile(r"\S+([,;|]\S+)+")}
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
_BINARY = {  # kinds of files by their first bytes, whatever their name
    b"PK\x03\x04": "an Excel workbook or another archive; save its table as .csv",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook or another Office file; save its table as .csv",
    b"\x1f\x8b": "compressed by gzip; add .gz to its name",
    b"PAR1": "a Parquet file; name it .parquet",
    b"\xff\xfe": "UTF-16, not UTF-8; save the file as UTF-8",
    b"\xfe\xff": "UTF-16, not UTF-8; save the file as UTF-8",
}


@dataclass(frozen=True)
class Problem:
    """One problem in a file.

    Attributes:
        file: path as given by the user.
        line: line counted from 1, or row of a Parquet file; 0 for the whole file.
        column: name of the column; empty for the whole line.
        value: the value found, or None.
        remedy: what to do about it.
    """

    file: str
    line: int
    column: str
    value: str | None
    remedy: str

    def __str__(self) -> str:
        """One line.

        >>> print(Problem("pairs.tsv", 3, "score", "abc", "write a number such as 3.5"))
        pairs.tsv:3: column 'score': 'abc': write a number such as 3.5
        """
        parts = [f"{self.file}:{self.line}" if self.line else self.file]
        if self.column:
            parts.append(f"column '{self.column}'")
        if self.value is not None:
            long = len(self.value) > _SHOWN
            parts.append(repr(f"{self.value[:_SHOWN]}…" if long else self.value))
        return ": ".join([*parts, self.remedy])


class DataError(TertiumError):
    """A file with bad rows.

    Attributes:
        problems: the problems found before reading stopped; ``check_file`` finds all of them.
    """

    def __init__(self, problems: Sequence[Problem], *, column: str | None = None) -> None:
        """Report the first problem, and the command that lists all of them.

        Args:
            problems: at least one problem.
            column: the column that was requested by name, if any.
        """
        self.problems = tuple(problems)
        first, more = self.problems[0], len(self.problems) - 1
        also = f" (and {more} more)" if more else ""
        command = ["tertium", "data", "check", first.file]
        command += [] if column is None else ["--column", column]
        super().__init__(f"{first}{also}. Run: {shlex.join(command)}")


class Record(NamedTuple):
    """The values of one row by column name, and the line it starts on.

    ``spelled`` has the names as written in the file, where they differ from the keys.
    """

    line: int
    values: dict[str, Any]
    spelled: Mapping[str, str] = {}

    def as_spelled(self, *, without: Collection[str] = ()) -> dict[str, Any]:
        """The values under the file's own names, without some columns."""
        kept = ((name, value) for name, value in self.values.items() if name not in without)
        return {self.spelled.get(name, name): value for name, value in kept}


class _Line(NamedTuple):
    number: int
    text: str  # without its line break
    problem: Problem | None  # why the text cannot be trusted


def read_records(path: Path) -> Iterator[Record]:
    """Records of a file, lazily; the first problem raises ``DataError``."""
    for item in scan(path):
        if isinstance(item, Problem):
            raise DataError([item])
        yield item


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 text file without line breaks; the first problem raises."""
    for line in _lines(existing_file(path)):
        if line.problem:
            raise DataError([line.problem])
        yield line.text


def scan(path: Path) -> Iterator[Record | Problem]:
    """Records of a file, and problems in place of bad ones.

    Raises:
        TertiumError: there is no such file, or its ending is not one of ``FORMATS``.
        DataError: the file has no usable header.
    """
    items = FORMATS[ending(path)](existing_file(path))
    return _refuse_empty(items, path)


def ending(path: Path) -> str:
    """The key of ``FORMATS`` for a path.

    >>> ending(Path("pairs.TSV.gz"))
    '.tsv'
    """
    *_, before, last = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    kind, zipped = (before, True) if last == ".gz" else (last, False)
    if kind not in FORMATS or (zipped and kind == ".parquet"):
        if path.exists():  # a folder or a pipe needs another remedy
            existing_file(path)
        remedy = f"Rename or convert it to one of: {', '.join(FORMATS)} (text also as .gz)"
        if last in _SPREADSHEETS:
            remedy = "Save its table as .csv"
        raise TertiumError(
            f"{path}: the ending '{last}' is not a format that tertium reads. {remedy}."
        )
    return kind


def one_line(text: str) -> str:
    """The text for a TSV field, which must not contain tabs and line breaks."""
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text


def no_formula(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs: an apostrophe precedes the start of a formula.

    >>> [no_formula(text) for text in ("=1+1", "-5", "-5 degrees", "a=b")]
    ["'=1+1", '-5', "'-5 degrees", 'a=b']
    """
    begins = text.lstrip()[:1] in _FORMULA  # some programs ignore leading white space
    return f"'{text}" if begins and not _NUMBER.fullmatch(text) else text


def row_writer(
    stream: IO[str],
    kind: str,
    columns: Sequence[str],
    *,
    cells: Callable[[Sequence[Any]], Iterable[str]],
) -> Callable[[Sequence[Any]], object]:
    """A function that writes one row to an open file; the header is written now.

    Args:
        stream: the file, opened with ``newline=""``.
        kind: ``.tsv``, ``.csv`` or ``.jsonl``.
        columns: names of the columns.
        cells: converts a row to text, for ``.tsv`` and ``.csv``.
    """
    if kind == ".jsonl":
        return lambda row: stream.write(to_json(dict(zip(columns, row, strict=True))) + "\n")
    if kind == ".csv":
        writer = csv.writer(stream)
        writer.writerow(columns)
        return lambda row: writer.writerow(cells(row))
    stream.write("\t".join(columns) + "\n")
    return lambda row: stream.write("\t".join(map(one_line, cells(row))) + "\n")


def to_json(value: Any) -> str:
    """A value of a table as JSON; types that JSON lacks become text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def header_line(path: Path) -> int | None:
    """The line with the names of the columns: 1, 0 for Parquet, or None if there is none."""
    return {".tsv": 1, ".csv": 1, ".parquet": 0}.get(ending(path))


def check_format(output: Path, endings: tuple[str, ...], *, what: str) -> None:
    """Raise unless the ending of ``output`` is that of a format that can be written.

    Args:
        output: the file.
        endings: the possible endings.
        what: the content of the file, as the subject of the message.
    """
    if output.suffix not in endings:
        known = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise TertiumError(f"{output}: {what} go to {known} files, or to a folder: DIR/")
    if output.suffix == ".parquet":
        require("scale", purpose="Writing Parquet", packages=("pyarrow",))


def check_stored_vectors(path: Path) -> None:
    """Raise unless ``path`` can be the output of ``tertium encode``: a file or a folder."""
    if path.is_dir():
        return
    if path.suffix not in VECTORS:
        raise TertiumError(
            f"{path}: vectors are read from .npy and .parquet files and from folders, as tertium "
            "encode writes them."
        )
    existing_file(path)


def _refuse_empty(items: Iterable[Record | Problem], path: Path) -> Iterator[Record | Problem]:
    empty = True
    for item in items:
        empty = False
        yield item
    if empty:
        yield Problem(str(path), 0, "", None, "the file holds no rows; add some")


def _open(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _lines(path: Path) -> Iterator[_Line]:
    """Decode line by line, so that a bad byte is located by its line and affects no other."""
    with _open(path) as stream:
        try:
            for number, raw in enumerate(stream, 1):
                yield _decode(raw, number, path)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TertiumError(f"{path}: broken gzip file ({error}). Fetch it again.") from error


def _decode(raw: bytes, number: int, path: Path) -> _Line:
    encoding = "utf-8-sig" if number == 1 else "utf-8"
    problem = _no_text(raw, path) if number == 1 else None
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, errors="replace")
        byte, remedy = f"0x{raw[error.start]:02x}", "not UTF-8; save the file as UTF-8"
        problem = problem or Problem(str(path), number, "", byte, remedy)
    if "\0" in text and not problem:
        problem = Problem(str(path), number, "", "\0", "remove the NUL, or save the file as UTF-8")
    return _Line(number, text.removesuffix("\n").removesuffix("\r"), problem)


def _no_text(first: bytes, path: Path) -> Problem | None:
    """A problem if the first line shows that the file is not lines of text."""
    found = [what for start, what in _BINARY.items() if first.startswith(start)]
    if not found and b"\r" in first.rstrip(b"\r\n") and not first.endswith(b"\n"):
        found = ["its lines end in CR only; save the file with LF or CRLF"]
    return Problem(str(path), 1, "", None, found[0]) if found else None


def column_key(name: str) -> str:
    """A column's name in the form used for comparison.

    >>> column_key(" Sentence 1"), column_key("is-duplicate")
    ('sentence_1', 'is_duplicate')
    """
    return _SEPARATORS.sub("_", name.strip().lower())


def _header(names: Sequence[str], path: Path, line: int) -> "_Header":
    """The header with cleaned names; raises if it is unusable, since no row can be read then."""
    clean = [column_key(name) for name in names]
    unseparated = _UNSEPARATED.get(ending(path))
    if len(names) == 1 and unseparated is not None and unseparated.fullmatch(names[0]):
        own, other = ("commas", ".tsv") if ending(path) == ".csv" else ("tabs", ".csv")
        remedy = f"the columns are not separated by {own}; save the file with {own}, or as {other}"
        raise DataError([Problem(str(path), line, "", names[0], remedy)])
    for name in clean:
        if not name:
            remedy = "the first line must name every column, for example: sentence1 sentence2 score"
            raise DataError([Problem(str(path), line, "", ", ".join(names), remedy)])
        if clean.count(name) > 1:
            raise DataError([Problem(str(path), line, name, name, "two columns share this name")])
    return _Header(clean, _spelled(names))


class _Header(NamedTuple):
    names: list[str]
    spelled: dict[str, str]

    def record(self, line: int, values: Iterable[Any]) -> Record:
        return Record(line, dict(zip(self.names, values, strict=True)), self.spelled)


def _spelled(names: Iterable[str]) -> dict[str, str]:
    return {key: name for name in names if (key := column_key(name)) != name}


def _record(
    header: _Header, fields: list[str], path: Path, line: int, *, quoting: str
) -> Record | Problem:
    if len(fields) == len(header.names):
        return header.record(line, fields)
    if not any(fields):
        return Problem(str(path), line, "", "", "remove the blank line")
    remedy = f"the header names {len(header.names)} columns, this line has {len(fields)}; {quoting}"
    return Problem(str(path), line, "", " | ".join(fields), remedy)


def _tsv(path: Path) -> Iterator[Record | Problem]:
    """Tab separated without quoting: quotation marks are ordinary characters."""
    header: _Header | None = None
    for number, text, problem in _lines(path):
        fields = text.split("\t")
        if problem:
            yield problem
            if header is None:
                return
        elif header is None:
            header = _header(fields, path, number)
        else:
            yield _record(header, fields, path, number, quoting="separate them by single tabs")


def _csv(path: Path) -> Iterator[Record | Problem]:
    """Comma separated; fields with commas, quotes or line breaks are in double quotes."""
    undecodable: list[Problem] = []

    def lines() -> Iterator[str]:
        for line in _lines(path):
            if line.problem:
                undecodable.append(line.problem)
            yield f"{line.text}\n"

    header: _Header | None = None
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(lines(), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if header is None and undecodable:
                yield from undecodable
                return
            yield Problem(str(path), start, "", None, f"{error}; check the double quotes")
            continue
        if undecodable:
            yield from undecodable
            undecodable.clear()
            if header is None:
                return
        elif header is None:
            header = _header(fields, path, start)
        else:
            yield _record(header, fields, path, start, quoting="quote fields that hold commas")


def _jsonl(path: Path) -> Iterator[Record | Problem]:
    """One JSON object per line."""
    for number, text, problem in _lines(path):
        if problem:
            yield problem
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            values = {column_key(name): item for name, item in value.items()}
            yield Record(number, values, _spelled(value))
        else:
            remedy = 'write one JSON object a line, such as {"sentence1": "…", "sentence2": "…"}'
            yield Problem(str(path), number, "", text, remedy)


def _txt(path: Path) -> Iterator[Record | Problem]:
    """One sentence per line, without a header."""
    for number, text, problem in _lines(path):
        yield problem or Record(number, {"sentence": text})


def _parquet(path: Path) -> Iterator[Record | Problem]:
    require("scale", purpose="Reading Parquet", packages=("pyarrow",))
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            header = _header(file.schema_arrow.names, path, 0)
            batches = file.iter_batches(batch_size=4096)
            rows = (row for batch in batches for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                yield header.record(number, row.values())
    except (ArrowException, OSError) as error:
        raise TertiumError(
            f"{path}: not a readable Parquet file ({error}). Write it again."
        ) from error


FORMATS: dict[str, Callable[[Path], Iterator[Record | Problem]]] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
    ".txt": _txt,
}
