"""Which columns of a table contain what, if their names are unusual."""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tertium.data.rows import Row
from tertium.data.tables import DataError, Problem, Record, column_key, header_line, scan
from tertium.errors import TertiumError

__all__ = ["HOLDERS", "Columns", "scan_columns", "strip_html"]

_BREAKS = re.compile(
    r"(?is)<!--.*?-->|<(script|style)\b.*?</\1\s*>|</?(?:p|div|br|hr|li|ul|ol|tr|td|th|table|h[1-6]"
    r"|blockquote|pre|section|article|header|footer)\b[^>]*>"
)
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>|<![a-zA-Z][^<>]*>")
HOLDERS = {  # fields of rows, and the attribute of ``Columns`` for each
    "sentence": "text",
    "sentence1": "first",
    "anchor": "first",
    "sentence2": "second",
    "positive": "second",
    "hard_negative": "negative",
    "condition": "condition",
    "score": "label",
    "label": "label",
}
_OPTIONS = {"text": "--column", "first": "--column1", "second": "--column2"}
_OPTIONS |= {"label": "--label-column"}


def strip_html(text: str) -> str:
    """The text of a piece of HTML, without tags, with entities decoded and single spaces.

    >>> strip_html("<p>Fish &amp; chips</p><p>2 &lt; 3<b>!</b></p>")
    'Fish & chips 2 < 3!'
    """
    return " ".join(html.unescape(_TAGS.sub("", _BREAKS.sub(" ", text))).split())


@dataclass(frozen=True)
class Columns:
    """Columns by content; several columns of one text are joined by a space.

    Several columns of labels belong to as many raters. Empty ones are recognised by their usual
    names.

    Attributes:
        text: single texts.
        first: first text of a pair, or the anchor of a positive pair or triplet.
        second: second text of a pair, or the positive.
        condition: condition that a pair is compared under.
        negative: negative of a triplet.
        label: grade, 0 or 1, or word.
        rater: who gave the label, if a row is one rating.
        strip_html: read all texts as HTML.
    """

    text: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    condition: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    rater: tuple[str, ...] = ()
    strip_html: bool = False

    @classmethod
    def parse(
        cls,
        *,
        column: str | None = None,
        column1: str | None = None,
        column2: str | None = None,
        label_column: str | None = None,
        strip_html: bool = False,
    ) -> "Columns":
        """Columns from options, with names separated by commas."""
        if (column1 is None) != (column2 is None):
            raise TertiumError("--column1 and --column2 belong together: name both texts.")
        return cls(
            text=_split(column),
            first=_split(column1),
            second=_split(column2),
            label=_split(label_column),
            strip_html=strip_html,
        )

    def __bool__(self) -> bool:
        """Whether anything is set."""
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The named columns, by content."""
        holders = {field.name: getattr(self, field.name) for field in fields(self)[:-1]}
        return {holder: names for holder, names in holders.items() if names}

    @property
    def options(self) -> list[str]:
        """The same as options of a command, as far as such options exist."""
        said = [(option, getattr(self, name)) for name, option in _OPTIONS.items()]
        given = [part for option, names in said if names for part in (option, ",".join(names))]
        return [*given, *["--strip-html"] * self.strip_html]

    def of(self, field: str, row_type: type[Row], found: Iterable[str]) -> tuple[str, ...]:
        """The columns among ``found`` that contain a field of a row; empty if none does."""
        named: tuple[str, ...] = getattr(self, HOLDERS[field]) if field in HOLDERS else ()
        usual = [name for name in row_type.names(field) if name in found]
        return named or tuple(usual[:1])

    def used(self, row_type: type[Row], found: Iterable[str]) -> tuple[str, ...]:
        """The columns among ``found`` that a row is read from; all others can be kept."""
        return tuple(
            name for field in row_type.model_fields for name in self.of(field, row_type, found)
        )

    def place(self, record: Record, row_type: type[Row]) -> Record:
        """The record with texts and label under the names of the row's fields."""
        if not self:
            return record
        values = dict(record.values)
        for field in row_type.model_fields:
            names = self.of(field, row_type, record.values)
            if names and not (len(names) > 1 and HOLDERS.get(field) == "label"):
                values[field] = self.value(record, names, text=HOLDERS.get(field) != "label")
        return record._replace(values=values)

    def value(self, record: Record, names: tuple[str, ...], *, text: bool = True) -> Any:
        """The joined values of these columns; HTML of a ``text`` is stripped if requested."""
        found = [record.values.get(name) for name in names]
        joined = found[0] if len(found) == 1 else _joined(found)
        return (
            strip_html(joined) if text and self.strip_html and isinstance(joined, str) else joined
        )


def _joined(values: list[Any]) -> str:
    parts = [str(value).strip() for value in values if value is not None]
    return " ".join(part for part in parts if part)


def _split(names: str | None) -> tuple[str, ...]:
    return tuple(column_key(name) for name in (names or "").split(",") if name.strip())


def scan_columns(path: Path, columns: Columns) -> Iterator[Record | Problem]:
    """Records of a file and the problems among them; named columns must exist.

    Raises:
        DataError: the file's header has no such column.
    """
    header = header_line(path)
    wanted = {name for names in columns.named.values() for name in names}
    for item in scan(path):
        absent = sorted(wanted - item.values.keys()) if isinstance(item, Record) else []
        if isinstance(item, Problem) or not absent:
            yield item
            continue
        remedy = f"no such column; there are: {', '.join(item.values)}"
        where = item.line if header is None else header
        problem = Problem(str(path), where, absent[0], None, remedy)
        if header is not None:
            raise DataError([problem])
        yield problem
