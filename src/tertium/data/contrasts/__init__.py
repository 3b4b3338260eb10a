"""Texts with their opposites, negations and small changes of meaning, written for tertium."""

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

__all__ = [
    *("ITEMS", "Contrast", "Half", "collected", "half_of", "hash_of", "items", "part_of"),
    *("read_lists", "read_table", "word_pairs"),
]

_FOLDER = Path(__file__).parent
ITEMS = _FOLDER / "items.tsv"

Half = Literal["choosing", "reporting"]


def half_of(text: str) -> Half:
    """Which half an item belongs to, by a hash of its text."""
    return "choosing" if hash_of(text) % 2 else "reporting"


def part_of(sentence: str) -> Literal["train", "test"]:
    """Whether a negated sentence is for training or testing; a tenth is for testing."""
    return "test" if hash_of(sentence) % 10 == 0 else "train"


def hash_of(text: str) -> int:
    """A number that is the same everywhere."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")


@dataclass(frozen=True)
class Contrast:
    """A text with a paraphrase, and with a text that barely differs but means something else.

    Attributes:
        kind: the kind of difference.
        text: the text.
        nearer: the paraphrase.
        farther: the text that means something else.
    """

    kind: str
    text: str
    nearer: str
    farther: str

    @property
    def half(self) -> Half:
        """Whether it is for choosing a model or for reporting."""
        return half_of(self.text)


@cache
def items() -> tuple[Contrast, ...]:
    """The contrasts that come with tertium."""
    return tuple(Contrast(**row) for row in read_table(ITEMS.name))


def read_table(name: str) -> list[dict[str, Any]]:
    """Rows of a table that comes with tertium."""
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def read_lists(name: str) -> dict[str, Any]:
    """Lists of words that come with tertium."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # six times as fast, where it is built
    found: dict[str, Any] = yaml.load((_FOLDER / name).read_text("utf-8"), loader)
    return found


def word_pairs(words: str, separator: str | None = None) -> list[tuple[str, str]]:
    """Pairs of a list such as ``awake/asleep at_home/out``."""
    pairs = [each.strip().replace("_", " ").split("/") for each in words.split(separator)]
    return [(first.strip(), second.strip()) for first, second in pairs]


def collected(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The second words of each first one."""
    found: dict[str, list[str]] = {}
    for word, other in pairs:
        found.setdefault(word, []).append(other)
    return found
