"""From records to validated rows; a bad one raises, and ``check_file`` lists all of them."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from tertium.data.columns import Columns, scan_columns
from tertium.data.rows import (
    ConditionalPair,
    GradedPair,
    LabelledPair,
    LabelledText,
    NewLabel,
    NliLabel,
    NliPair,
    Pair,
    PositivePair,
    Question,
    Row,
    RowT,
    Sentence,
    SentencePair,
    Triplet,
)
from tertium.data.tables import (
    DataError,
    Problem,
    Record,
    ending,
    header_line,
    read_records,
    scan,
)
from tertium.errors import TertiumError

__all__ = [
    "KINDS",
    "Scale",
    "detect_kind",
    "first_texts",
    "in_split",
    "is_number",
    "iter_kept",
    "iter_rows",
    "iter_texts",
    "kept_columns",
    "read_rows",
    "read_translation",
    "rows_of",
    "scan_rows",
    "scan_texts",
    "validated",
]

Scale = tuple[float, float]

KINDS: dict[str, type[Row]] = {
    "texts": Sentence,
    "pairs": Pair,
    "graded": GradedPair,
    "conditional": ConditionalPair,
    "relabelled": NewLabel,
    "triplets": Triplet,
    "positives": PositivePair,
    "nli": NliPair,
    "labelled": LabelledText,
    "labelled-pairs": LabelledPair,
}

_REMEDIES = {
    "float_parsing": "write a number such as 3.5",
    "float_type": "write a number such as 3.5",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "string_type": "write text; in JSON between quotes",
    "string_unicode": "not valid Unicode text; remove the lone surrogate",
    "literal_error": "write entailment, neutral or contradiction",
}


def iter_rows(
    path: Path,
    row_type: type[RowT],
    *,
    split: str | None = None,
    scale: Scale | None = None,
    columns: Columns | None = None,
) -> Iterator[RowT]:
    """Rows of a file, lazily and in constant memory; the first bad one raises ``DataError``.

    Args:
        path: TSV, CSV, JSONL, Parquet or plain text; see ``tertium.data.tables``.
        row_type: the type of all rows.
        split: only rows with this value in the column ``split``; others are not validated.
        scale: lowest and highest allowed score.
        columns: columns with unusual names.
    """
    items: Iterable[Record | Problem] = _placed(path, row_type, columns)
    if split is not None:
        items = in_split(items, split, path)
    return rows_of(items, row_type, file=path, header=header_line(path), scale=scale)


def read_rows(
    path: Path,
    row_type: type[RowT],
    *,
    split: str | None = None,
    scale: Scale | None = None,
    columns: Columns | None = None,
) -> list[RowT]:
    """All rows of a file; see ``iter_rows``."""
    return list(iter_rows(path, row_type, split=split, scale=scale, columns=columns))


def iter_kept(
    path: Path, row_type: type[RowT], *, columns: Columns | None = None
) -> Iterator[tuple[RowT, dict[str, Any]]]:
    """Rows like those of ``iter_rows``, each with the values of all other columns.

    Names are spelled as in the file.
    """
    chosen = columns or Columns()
    last: list[Record] = []

    def records() -> Iterator[Record | Problem]:
        for item in scan_columns(path, chosen):
            if isinstance(item, Problem):
                yield item
            else:
                last[:] = [item]
                yield chosen.place(item, row_type)

    for row in rows_of(records(), row_type, file=path, header=header_line(path)):
        (record,) = last  # rows are made one at a time
        yield row, record.as_spelled(without=chosen.used(row_type, record.values))


def _placed(path: Path, row_type: type[Row], columns: Columns | None) -> Iterator[Record | Problem]:
    """Records with the named columns where a row looks for them."""
    if not columns:
        return scan(path)
    items = scan_columns(path, columns)
    return (i if isinstance(i, Problem) else columns.place(i, row_type) for i in items)


def rows_of(
    items: Iterable[Record | Problem],
    row_type: type[RowT],
    *,
    file: Path | str,
    header: int | None = None,
    scale: Scale | None = None,
) -> Iterator[RowT]:
    """Validate records of any origin; the first bad one raises ``DataError``.

    Args:
        items: records and problems, as from ``tertium.data.tables.scan``.
        row_type: the type of all rows.
        file: name of their origin in messages.
        header: the line that names the columns, if there is one.
        scale: lowest and highest allowed score.
    """
    for item in validated(items, row_type, file=str(file), header=header, scale=scale):
        if isinstance(item, Problem):
            raise DataError([item])
        yield item[1]


def scan_rows(
    path: Path,
    row_type: type[RowT],
    *,
    scale: Scale | None = None,
    columns: Columns | None = None,
) -> Iterator[tuple[int, RowT] | Problem]:
    """Rows of a file, each with its line, and problems in place of bad ones."""
    items = _placed(path, row_type, columns)
    return validated(items, row_type, file=str(path), header=header_line(path), scale=scale)


def iter_texts(path: Path, *, column: str | None = None, strip_html: bool = False) -> Iterator[str]:
    """Texts of a file, lazily and unchanged: text i belongs to row i of the file.

    An empty line of a ``.txt`` file is an empty text here, and a problem to ``check_file``.

    Args:
        path: plain text, or a table with a column of texts.
        column: its name (default: the first of ``Sentence.names("sentence")`` that exists).
            Several columns, separated by commas, are joined by a space.
        strip_html: read the texts as HTML.
    """
    for item in scan_texts(path, column=column, strip_html=strip_html):
        if isinstance(item, Problem):
            raise DataError([item], column=column)
        yield item[1]


def first_texts(path: Path, most: int) -> list[str]:
    """The first texts of a file that are not blank."""
    return list(itertools.islice((text for text in iter_texts(path) if text.strip()), most))


def scan_texts(
    path: Path, *, column: str | None = None, strip_html: bool = False
) -> Iterator[tuple[int, str] | Problem]:
    """Texts of a file, each with its line, and problems in place of bad ones.

    A column that is missing from the header raises.
    """
    columns = Columns.parse(column=column, strip_html=strip_html)
    usual = Sentence.names("sentence")
    header = header_line(path)
    for item in scan(path):
        if isinstance(item, Problem):
            yield item
            continue
        line, values, _ = item
        names = columns.text or tuple(name for name in usual if name in values)[:1]
        absent = [name for name in names if name not in values]
        text = columns.value(item, names) if names and not absent else None
        if isinstance(text, str):
            yield line, text
            continue
        value = None if text is None else str(text)
        wanted = absent or names or usual
        remedy = f"needs text in column {' or '.join(wanted)}; found: {', '.join(values)}"
        remedy += "" if names else "; name yours with --column"
        problem = Problem(str(path), line, wanted[0], value, remedy)
        if (absent or not names) and header is not None:
            raise DataError([problem], column=column)
        yield problem


def read_translation(original: Path, translated: Path) -> list[tuple[str, str]]:
    """Pairs of a text and its translation, without rows that are blank in both files.

    Args:
        original: text file or table with one text per row.
        translated: the same number of rows, in the same order.

    Raises:
        TertiumError: one file has more rows than the other.
        DataError: a text has no translation, or a translation no text.
    """
    pairs: list[tuple[str, str]] = []
    rows = itertools.zip_longest(iter_texts(original), iter_texts(translated))
    for number, (text, translation) in enumerate(rows, 1):
        if text is None or translation is None:
            short, long = (original, translated) if text is None else (translated, original)
            raise TertiumError(
                f"{short} ends after {number - 1:,} texts, and {long} has more: row i of a "
                "translation belongs to row i of its original. Make the translation again."
            )
        if text.strip() and translation.strip():
            pairs.append((text, translation))
        elif text.strip() or translation.strip():
            blank, other = (translated, original) if text.strip() else (original, translated)
            remedy = f"blank, and row {number} of {other} is not; write the text, or remove both"
            raise DataError([Problem(str(blank), number, "", None, remedy)])
    return pairs


def kept_columns(path: Path, *, column: str | None = None) -> Iterator[dict[str, Any]]:
    """The other columns of the rows that ``iter_texts`` reads, spelled as in the file."""
    if ending(path) == ".txt":
        return
    chosen = Columns.parse(column=column)
    for record in read_records(path):
        yield record.as_spelled(without=chosen.used(Sentence, record.values))


def detect_kind(path: Path, *, columns: Columns | None = None) -> str:
    """The key of ``KINDS`` that fits the columns and the first good row of a file."""
    if ending(path) == ".txt":
        return "texts"
    problems = list[Problem]()
    for item in scan(path):
        if isinstance(item, Record):
            return _kind_of(item if not columns else columns.place(item, Question), path)
        problems.append(item)
    raise DataError(problems)


def _kind_of(record: Record, path: Path) -> str:
    columns = record.values
    if not Triplet.missing(columns):
        return "triplets"
    if not SentencePair.missing(columns):
        if not ConditionalPair.missing(columns):
            return "conditional"
        return _kind_of_pair(columns)
    for kind in ("positives", "relabelled", "labelled", "texts"):
        if not KINDS[kind].missing(columns):
            return kind
    remedy = "name the columns: sentence, or sentence1 and sentence2; see docs/how-to/data.md"
    line = header_line(path)
    where = record.line if line is None else line
    raise DataError([Problem(str(path), where, "", ", ".join(columns), remedy)])


def _kind_of_pair(columns: dict[str, Any]) -> str:
    """Decide by its value whether a column ``label`` contains a grade, an NLI label or a class."""
    name = next((name for name in GradedPair.names("score") if name in columns), None)
    value = str(columns.get(name or "gold_label", "")).strip().lower()
    if value in _NLI_LABELS:
        return "nli"
    if name is None:
        return "pairs"
    return "labelled-pairs" if name == "label" and not is_number(value) else "graded"


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def in_split(
    items: Iterable[Record | Problem], split: str, path: Path
) -> Iterator[Record | Problem]:
    """Records with this value in the column ``split``; raises if there are none."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Record):
            if "split" not in item.values:
                found = ", ".join(item.values)
                remedy = f"no such column, so no split '{split}'; name only the file"
                raise DataError([Problem(str(path), item.line, "split", found, remedy)])
            seen.add(str(item.values["split"]))
            if item.values["split"] != split:
                continue
        yield item
    if split not in seen:
        remedy = f"no row has this split; the file has: {', '.join(sorted(seen))}"
        raise DataError([Problem(str(path), 0, "split", split, remedy)])


def validated(
    items: Iterable[Record | Problem],
    row_type: type[RowT],
    *,
    file: str,
    header: int | None,
    scale: Scale | None = None,
) -> Iterator[tuple[int, RowT] | Problem]:
    """Rows with their lines, and problems in place of bad ones."""
    header_seen = header is None
    for item in items:
        if isinstance(item, Problem):
            yield item
            continue
        if not header_seen:
            header_seen = True
            absent = row_type.missing(item.values)
            for field in absent:
                yield _absent(row_type, field, item, file=file, line=header or 0)
            if absent:
                return
        try:
            yield item.line, row_type.model_validate(item.values, context=scale)
        except ValidationError as error:
            yield from _problems(error, row_type, item, file=file)


def _problems(
    error: ValidationError, row_type: type[Row], record: Record, *, file: str
) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        column = str(detail["loc"][0])
        if detail["type"] == "missing":
            yield _absent(row_type, column, record, file=file, line=record.line)
        else:
            value = None if detail["input"] is None else str(detail["input"])
            remedy = _REMEDIES.get(detail["type"], detail["msg"])
            yield Problem(file, record.line, record.spelled.get(column, column), value, remedy)


def _absent(row_type: type[Row], field: str, record: Record, *, file: str, line: int) -> Problem:
    names = ", ".join(row_type.names(field))
    remedy = f"no such column among: {', '.join(record.values)}; call it one of: {names}"
    return Problem(file, line, field, None, remedy)


_NLI_LABELS = frozenset(get_args(get_args(NliLabel)[0]))
