"""Checks a whole file: everything that is wrong with it, and what else is worth knowing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tertium.data import shapes
from tertium.data.columns import Columns
from tertium.data.overlap import pair_key
from tertium.data.readers import KINDS, detect_kind, is_number, scan_texts, validated
from tertium.data.rows import Row, SentencePair
from tertium.data.shapes import ENTAILMENT, AmbiguousFileError, Recognised, Shape
from tertium.data.tables import DataError, Problem, Record, header_line, scan
from tertium.errors import TertiumError, unknown_name

__all__ = ["Check", "check_file"]


@dataclass(frozen=True)
class Check:
    """The result of checking a file.

    Attributes:
        kind: a key of ``KINDS``, given or detected; None if it could not be detected.
        rows: number of good rows.
        problems: all problems, in the order of the file.
        notes: other observations, such as grades that are not read, or repeated pairs.
        recognised: the recognised file; None if a problem prevented it.
        ambiguous: why the file can be read in two ways, and how to choose; else empty.
    """

    kind: str | None
    rows: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    recognised: Recognised | None = None
    ambiguous: str = ""


def check_file(
    path: Path,
    *,
    kind: str | None = None,
    column: str | None = None,
    recognise: Callable[[Path], Recognised] | None = None,
) -> Check:
    """Read a whole file and list everything that is wrong with it.

    Args:
        path: file in one of the formats of ``tertium.data.tables``.
        kind: a key of ``KINDS`` (default: recognised by columns and values).
        column: column of the texts, for a file of texts.
        recognise: recognises the file (default: by its content only).

    Raises:
        TertiumError: there is no such file, or no such format or kind.
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind of file", kind, KINDS)
    if column is not None and kind not in (None, "texts"):
        raise TertiumError(f"--column names a column of texts: leave out --kind {kind}.")
    rows, problems = 0, list[Problem]()
    notes: _Notes | None = None
    ask = recognise or partial(shapes.recognise, skip_bad_rows=True)
    found, ambiguous, fault = _recognised(path, None if kind or column else ask)
    try:
        if column is not None:
            kind = "texts"
            items: Iterable[tuple[int, object] | Problem] = scan_texts(path, column=column)
        else:
            kind = kind or _kind(path, found, fault)
            notes = _Notes(KINDS[kind], found)
            items = notes.watch(path)
        for item in items:
            if isinstance(item, Problem):
                problems.append(item)
            else:
                rows += 1
    except DataError as error:
        problems.extend(error.problems)
    if fault is not None and not problems:
        problems.extend(fault.problems)
    return Check(kind, rows, tuple(problems), tuple(notes or ()), found, ambiguous)


def _recognised(
    path: Path, recognise: Callable[[Path], Recognised] | None
) -> tuple[Recognised | None, str, DataError | None]:
    """The recognised file, or why it is ambiguous, or the error that prevented it."""
    if recognise is None:
        return None, "", None
    try:
        return recognise(path), "", None
    except AmbiguousFileError as error:
        problem = error.problems[0]
        return None, f"{problem.value}: {problem.remedy}", None
    except DataError as error:
        return None, "", error


def _kind(path: Path, found: Recognised | None, fault: DataError | None) -> str:
    """The kind that rows are validated as."""
    if found is None or (found.shape is Shape.TEXTS and not found.columns.named):
        try:
            return detect_kind(path)
        except DataError as error:
            raise fault or error from None
    if found.shape.labelled and not found.raters_in_columns:
        names = None if found.labels is None else found.labels.names
        words = "nli" if names == ENTAILMENT else "labelled-pairs"
        return "graded" if names is None else words
    if found.shape is Shape.TEXTS and "label" in (found.kept):
        return "labelled"
    return "pairs" if found.shape.labelled else str(found.shape)


@dataclass
class _Notes:
    """Observations about pairs, collected while they are validated."""

    row_type: type[Row]
    found: Recognised | None = None
    numbers: dict[str, bool] = field(default_factory=dict)  # columns not read: all numbers?
    first: dict[int, tuple[int, object]] = field(default_factory=dict)  # line and grade of a pair
    repeated: dict[int, tuple[int, int]] = field(default_factory=dict)  # first two lines of a pair
    contradicted: dict[int, tuple[int, int]] = field(default_factory=dict)

    def watch(self, path: Path) -> Iterator[tuple[int, Row] | Problem]:
        """The rows of a file, unchanged."""
        columns = self.columns
        records = (
            i if isinstance(i, Problem) else columns.place(i, self.row_type)
            for i in self._records(scan(path))
        )
        for item in validated(records, self.row_type, file=str(path), header=header_line(path)):
            if not isinstance(item, Problem):
                self._pair(*item)
            yield item

    @property
    def columns(self) -> Columns:
        """The recognised columns."""
        return Columns() if self.found is None else self.found.columns

    def __iter__(self) -> Iterator[str]:
        yield from () if self.found is None else self.found.notes
        unread = [column for column, numeric in self.numbers.items() if numeric]
        if unread:
            yield (
                f"numbers that are not read: column {', '.join(unread)} (several raters' grades: "
                f"--label-column {','.join(unread)})"
            )
        if self.repeated and not self.columns.rater:
            one, two = next(iter(self.repeated.values()))
            yield (
                f"pairs that occur more than once: {len(self.repeated):,}, first in lines {one} "
                f"and {two}"
            )
        if self.contradicted and not self.columns.rater:
            one, two = next(iter(self.contradicted.values()))
            yield (
                f"of these with different grades: {len(self.contradicted):,}, first in lines "
                f"{one} and {two}"
            )

    def _records(self, items: Iterable[Record | Problem]) -> Iterator[Record | Problem]:
        pairs = issubclass(self.row_type, SentencePair)
        for item in items:
            if pairs and isinstance(item, Record):
                self._columns(item)
            yield item

    def _columns(self, record: Record) -> None:
        named = self.columns.named.values()
        read = {name for names in named for name in names}
        read |= {*self.columns.used(self.row_type, record.values)}
        for column, value in record.values.items():
            if column not in read and self.numbers.get(column, True):
                text = str(value).strip()
                self.numbers[column] = not text or is_number(text)

    def _pair(self, line: int, row: Row) -> None:
        if not isinstance(row, SentencePair):
            return
        condition = str(getattr(row, "condition", "")).strip().lower()
        key = hash((pair_key(row.sentence1, row.sentence2), condition))
        grade = getattr(row, "score", getattr(row, "label", None))
        before, earlier = self.first.setdefault(key, (line, grade))
        if before != line:
            self.repeated.setdefault(key, (before, line))
            if earlier != grade:
                self.contradicted.setdefault(key, (before, line))
