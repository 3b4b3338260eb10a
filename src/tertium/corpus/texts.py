"""Which texts of a list are the same text."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Distinct", "distinct", "normal_form"]


def normal_form(text: str) -> str:
    r"""What must agree for two texts to be the same: all but white space and Unicode spelling.

    >>> normal_form("Cafe\u0301  au lait\n") == normal_form("Café au\tlait")
    True
    >>> normal_form("US") == normal_form("us")
    False
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Distinct:
    """The first of each text, and where the others repeat it.

    Attributes:
        rows: of the first ones, ascending.
        repeats: row of each repetition, and the row that it repeats.
    """

    rows: tuple[int, ...]
    repeats: dict[int, int]


def distinct(texts: Sequence[str]) -> Distinct:
    """Find texts that are the same.

    >>> distinct(["a b", "c", " a  b "])
    Distinct(rows=(0, 1), repeats={2: 0})
    """
    first: dict[str, int] = {}
    repeats: dict[int, int] = {}
    for row, text in enumerate(texts):
        seen = first.setdefault(normal_form(text), row)
        if seen != row:
            repeats[row] = seen
    return Distinct(tuple(first.values()), repeats)
