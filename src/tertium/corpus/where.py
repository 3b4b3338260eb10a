"""Filters: ``year >= 2020 AND lang = 'en'``, read here and given to SQLite with bound values.

Nothing of what the user writes becomes SQL: columns must be those of the index, values are bound,
and there is no function, no second statement and no other table in the language. So strangers may
write filters, as the users of a server do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tertium.errors import TertiumError, unknown_name

__all__ = ["Where", "WhereError", "column_name", "parse_where"]

_LONGEST = 4000  # characters
_DEEPEST = 40  # brackets and NOTs
_MOST = 200  # comparisons
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | (?P<string>'(?:[^']|'')*')
      | (?P<name>[^\W\d][\w.\-]*|"(?:[^"]|"")+"|`[^`]+`)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_COMPARISONS = {"==": "=", "!=": "<>"} | {sign: sign for sign in ("=", "<>", "<", "<=", ">", ">=")}
_WORDS = frozenset(["and", "or", "not", "in", "like", "is", "null", "between", "true", "false"])
# Numbers that a table of text holds are text, perhaps with zeros that must not be lost.
_NUMBER = (
    "CASE typeof({0}) WHEN 'text' THEN CASE WHEN {0} GLOB '*[0-9]*' "
    "AND {0} NOT GLOB '*[^0-9.eE+-]*' THEN CAST({0} AS REAL) END ELSE {0} END"
)
_EXAMPLE = "Write a filter such as: year >= 2020 AND lang = 'en'."


class WhereError(TertiumError):
    """A filter that cannot be read."""


@dataclass(frozen=True)
class Where:
    """A filter as SQLite takes it.

    Attributes:
        sql: a condition with a mark for every value.
        values: of the marks.
        reads_texts: whether it asks for ids or texts, which are in another table than columns.
    """

    sql: str
    values: tuple[Any, ...]
    reads_texts: bool


class _Token(NamedTuple):
    kind: str  # number, string, name, sign, word or end
    text: str
    place: int


def column_name(name: str) -> str:
    """What a column of the user's is called in SQL: never as one of ours.

    >>> column_name("year")
    '"c_year"'
    """
    return '"c_' + name.replace('"', '""') + '"'


def parse_where(text: str, columns: Sequence[str]) -> Where:
    """Read a filter.

    Args:
        text: comparisons (``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``LIKE``,
            ``BETWEEN``, ``IS NULL``) of a column with values, joined by ``AND``, ``OR`` and
            ``NOT``. A column is compared as numbers with a number, and as text with text.
        columns: those that there are; ``id`` and ``text`` are there as well.

    >>> parse_where("year >= 2020 AND lang IN ('en', 'de')", ["year", "lang"]).values
    (2020, 'en', 'de')
    """
    if len(text) > _LONGEST:
        raise WhereError(f"A filter has at most {_LONGEST:,} characters.")
    return _Parser(text, columns).parse()


class _Parser:
    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._text = text
        self._columns = {name.lower(): name for name in reversed(columns)}
        self._tokens = _tokens(text)
        self._at = 0
        self._values: list[Any] = []
        self._comparisons = 0
        self._reads_texts = False

    def parse(self) -> Where:
        sql = self._any(0)
        if self._next.kind != "end":
            raise self._error("expected AND, OR or the end")
        return Where(sql, tuple(self._values), self._reads_texts)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str | None:
        """The next token if it is a word or sign among these."""
        token = self._next
        if token.kind in ("word", "sign") and token.text in texts:
            self._at += 1
            return token.text
        return None

    def _expect(self, text: str) -> None:
        if self._take(text) is None:
            raise self._error(f"expected {text.upper()}")

    def _any(self, depth: int) -> str:
        found = [self._all(depth)]
        while self._take("or"):
            found.append(self._all(depth))
        return found[0] if len(found) == 1 else f"({' OR '.join(found)})"

    def _all(self, depth: int) -> str:
        found = [self._one(depth)]
        while self._take("and"):
            found.append(self._one(depth))
        return " AND ".join(found)

    def _one(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} brackets inside each other")
        if self._take("not"):
            return f"NOT ({self._one(depth + 1)})"
        if self._take("("):
            found = self._any(depth + 1)
            self._expect(")")
            return f"({found})"
        return self._comparison()

    def _comparison(self) -> str:
        self._comparisons += 1
        if self._comparisons > _MOST:
            raise self._error(f"more than {_MOST} comparisons")
        column = self._column()
        if sign := self._take(*_COMPARISONS):
            return self._compare(column, _COMPARISONS[sign], self._value())
        if self._take("is"):
            no = "NOT " if self._take("not") else ""
            self._expect("null")
            return f"{column} IS {no}NULL"
        no = "NOT " if self._take("not") else ""
        if self._take("in"):
            self._expect("(")
            found = [self._compare(column, "=", self._value())]
            while self._take(","):
                found.append(self._compare(column, "=", self._value()))
            self._expect(")")
            return f"{no}({' OR '.join(found)})"
        if self._take("like"):
            value = self._value()
            if not isinstance(value, str):
                raise self._error("LIKE takes text, such as 'new %'")
            return f"{no}({self._compare(column, 'LIKE', value)})"
        if self._take("between"):
            low = self._compare(column, ">=", self._value())
            self._expect("and")
            return f"{no}({low} AND {self._compare(column, '<=', self._value())})"
        raise self._error("expected a comparison, such as = 3")

    def _compare(self, column: str, sign: str, value: Any) -> str:
        if isinstance(value, str):
            self._values.append(value)
            return f"CAST({column} AS TEXT) {sign} ?"
        if isinstance(value, bool):
            self._values += [str(value).lower(), int(value)]
            text, number = f"lower({column}) {sign} ?", f"{column} {sign} ?"
            return f"CASE typeof({column}) WHEN 'text' THEN {text} ELSE {number} END"
        self._values.append(value)
        return f"{_NUMBER.format(column)} {sign} ?"

    def _column(self) -> str:
        token = self._next
        if token.kind != "name":
            raise self._error("expected the name of a column")
        self._at += 1
        name = token.text.lower()
        if name in self._columns:
            return f"fields.{column_name(self._columns[name])}"
        if name in ("id", "text"):
            self._reads_texts = True
            return f"texts.{name}"
        known = [*self._columns.values(), "id", "text"]
        raise WhereError(str(unknown_name("column", token.text, known)))

    def _value(self) -> Any:
        token = self._next
        self._at += 1
        if token.kind == "number":
            whole = token.text.lstrip("+-").isdigit() and len(token.text) < 19
            return int(token.text) if whole else float(token.text)
        if token.kind == "string":
            return token.text
        if token.kind == "word" and token.text in ("true", "false"):
            return token.text == "true"
        self._at -= 1
        raise self._error("expected a value: a number, text in single quotes, TRUE or FALSE")

    def _error(self, problem: str) -> WhereError:
        token = self._next
        found = "the end" if token.kind == "end" else repr(self._text[token.place :][:20])
        return WhereError(f"The filter cannot be read at {found}: {problem}. {_EXAMPLE}")


def _tokens(text: str) -> list[_Token]:
    found, at = list[_Token](), 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].lstrip()
            raise WhereError(
                f"The filter cannot be read at {rest[:20]!r}: no such sign, or a quote that does "
                f"not end. {_EXAMPLE}"
            )
        kind = str(match.lastgroup)
        content, place = match[kind], match.start(kind)
        if kind == "string":
            content = content[1:-1].replace("''", "'")
        elif kind == "name" and content[0] in '"`':
            content = content[1:-1].replace('""', '"')
        elif kind == "name" and content.lower() in _WORDS:
            kind, content = "word", content.lower()
        found.append(_Token(kind, content, place))
        at = match.end()
    return [*found, _Token("end", "", len(text))]
