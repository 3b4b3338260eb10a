"""Words of a text: what an explanation is about, whatever pieces a tokenizer cuts."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Word", "join_pieces", "split_words", "without"]

# Letters and digits with apostrophes and hyphens inside; any other sign is a word of its own.
_WORD = re.compile(r"\w+(?:['\u2019\-]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Word:
    """A word and where it stands.

    Attributes:
        text: as it is written.
        start: its first character in the text.
        end: the first character after it.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Words and signs of a text, in order.

    >>> [word.text for word in split_words("A well-known cat's nap, twice.")]
    ['A', 'well-known', "cat's", 'nap', ',', 'twice', '.']
    """
    return [Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def without(text: str, words: Sequence[Word], gone: Collection[int]) -> str:
    """The text without the words at some places; what is left keeps its own spaces.

    >>> text = "A cat sleeps."
    >>> without(text, split_words(text), {1})
    'A sleeps.'
    """
    pieces, end = [], 0
    for at, word in enumerate(words):
        if at in gone:
            pieces.append(text[end : word.start])
            end = word.end
    left = "".join([*pieces, text[end:]])
    return re.sub(r" {2,}", " ", left).strip()


def join_pieces(
    values: Sequence[float], offsets: Sequence[tuple[int, int]], words: Sequence[Word]
) -> list[float]:
    """Values of tokens, added up for the word in which each begins.

    Args:
        values: one per token.
        offsets: of each token in the text; an empty range for special tokens, which count for none.
        words: in order.
    """
    totals = [0.0] * len(words)
    place = 0
    for value, (start, end) in zip(values, offsets, strict=True):
        if start == end:
            continue
        while place < len(words) - 1 and words[place].end <= start:
            place += 1
        if words and words[place].start < end and start < words[place].end:
            totals[place] += value
    return totals
