"""A whole file at once: everything that is wrong with it, and what is worth knowing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tertium.data.overlap import pair_key
from tertium.data.readers import KINDS, detect_kind, is_number, scan_texts, validated
from tertium.data.rows import Row, SentencePair
from tertium.data.tables import DataError, Problem, Record, header_line, scan
from tertium.errors import TertiumError, unknown_name

__all__ = ["Check", "check_file"]


@dataclass(frozen=True)
class Check:
    """What a whole file holds.

    Attributes:
        kind: a key of ``KINDS``, given or detected; None when it could not be detected.
        rows: how many rows are good.
        problems: all that is wrong, in the order of the file.
        notes: what is not wrong and should be known: grades that are not read, repeated pairs.
    """

    kind: str | None
    rows: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def check_file(path: Path, *, kind: str | None = None, column: str | None = None) -> Check:
    """Read a whole file and list everything that is wrong with it.

    Args:
        path: file in one of the formats of ``tertium.data.tables``.
        kind: a key of ``KINDS``; default: detected from the columns and the first row.
        column: the one that holds texts, for a file of texts.

    Raises:
        TertiumError: there is no such file, or no such format or kind.
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind of file", kind, KINDS)
    if column is not None and kind not in (None, "texts"):
        raise TertiumError(f"--column names a column of texts: leave out --kind {kind}.")
    rows, problems = 0, list[Problem]()
    notes: _Notes | None = None
    try:
        if column is not None:
            kind = "texts"
            items: Iterable[tuple[int, object] | Problem] = scan_texts(path, column=column)
        else:
            kind = kind or detect_kind(path)
            notes = _Notes(KINDS[kind])
            items = notes.watch(path)
        for item in items:
            if isinstance(item, Problem):
                problems.append(item)
            else:
                rows += 1
    except DataError as error:
        problems.extend(error.problems)
    return Check(kind, rows, tuple(problems), tuple(notes) if notes else ())


@dataclass
class _Notes:
    """What is noticed about pairs while they are validated."""

    row_type: type[Row]
    numbers: dict[str, bool] = field(default_factory=dict)  # columns not read: all numbers?
    first: dict[int, tuple[int, object]] = field(default_factory=dict)  # line and grade of a pair
    repeated: dict[int, tuple[int, int]] = field(default_factory=dict)  # first two lines of a pair
    contradicted: dict[int, tuple[int, int]] = field(default_factory=dict)

    def watch(self, path: Path) -> Iterator[tuple[int, Row] | Problem]:
        """The rows of a file, unchanged."""
        records = self._records(scan(path))
        for item in validated(records, self.row_type, file=str(path), header=header_line(path)):
            if not isinstance(item, Problem):
                self._pair(*item)
            yield item

    def __iter__(self) -> Iterator[str]:
        unread = [column for column, numeric in self.numbers.items() if numeric]
        if unread:
            several = "" if len(unread) == 1 else "; of several raters' grades, give the mean"
            yield (
                f"numbers that are not read: column {', '.join(unread)} (a grade is read from "
                f"column score){several}"
            )
        if self.repeated:
            one, two = next(iter(self.repeated.values()))
            yield (
                f"pairs that occur more than once: {len(self.repeated):,}, first in lines {one} "
                f"and {two}"
            )
        if self.contradicted:
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
        fields = self.row_type.model_fields
        read = {
            next((name for name in self.row_type.names(field) if name in record.values), None)
            for field in fields
        }
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
