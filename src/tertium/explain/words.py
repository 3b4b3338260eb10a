"""Splits a text into words, independently of any tokenizer."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Place", "Word", "split_words", "without", "word_of"]

# On classes of characters: letters and digits with apostrophes and hyphens inside; numbers with
# decimal points; an ideograph; any other symbol, including joined emoji; stray marks.
_WORD = re.compile(
    r"(?:[wd][mz]*)+(?:(?:j|(?<=d)p(?=d))(?:[wd][mz]*)+)*|cm*|[sjp]m*(?:z[sjp]m*)*|m+"
)
_JOINERS = "\u200c\u200d"  # inside words of some scripts, and in joined emoji
_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
_TONES = (0x1F3FB, 0x1F3FF)  # skin tones of the preceding emoji


Place = tuple[int, int]  # text, and word in it


@dataclass(frozen=True)
class Word:
    """A word and its position.

    Attributes:
        text: the word.
        start: offset of its first character.
        end: offset just after its last character.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Words and punctuation of a text, in order, without white space and control characters.

    >>> [word.text for word in split_words("A well-known cat's nap, 3.5 h.")]
    ['A', 'well-known', "cat's", 'nap', ',', '3.5', 'h', '.']
    """
    classes = "".join(map(_class, text))
    spans = (found.span() for found in _WORD.finditer(classes))
    return [Word(text[start:end], start, end) for start, end in spans]


def without(text: str, words: Sequence[Word], gone: Collection[int]) -> str:
    """The text without the words at some positions, and without the spaces they leave.

    >>> text = "A cat sleeps."
    >>> without(text, split_words(text), {1})
    'A sleeps.'
    """
    left, end = "", 0
    for at, word in enumerate(words):
        if at not in gone:
            continue
        left, end = left + text[end : word.start], word.end
        while (not left or left[-1].isspace()) and end < len(text) and text[end].isspace():
            end += 1
    return left.rstrip() if end == len(text) and gone else left + text[end:]


def word_of(offsets: tuple[int, int], words: Sequence[Word]) -> int | None:
    """The position of the word that a token belongs to: the first that it overlaps."""
    start, end = offsets
    at = bisect_right(words, start, key=lambda word: word.end)
    return at if start < end and at < len(words) and words[at].start < end else None


def _class(character: str) -> str:
    """A letter for the class of a character; a space if it is not part of a word."""
    code = ord(character)
    if character in "'\u2019-\u2010\u2011":
        return "j"
    if character in ".,":
        return "p"
    if character in _JOINERS:
        return "z"
    if any(low <= code <= high for low, high in _IDEOGRAPHS):
        return "c"
    if character.isdigit():
        return "d"
    if character.isalnum() or character == "_":
        return "w"
    category = unicodedata.category(character)
    if category[0] == "M" or _TONES[0] <= code <= _TONES[1]:
        return "m"
    return " " if character.isspace() or category in ("Cc", "Cf", "Cs") else "s"
