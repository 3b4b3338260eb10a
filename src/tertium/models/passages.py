"""Long texts in passages, cut at the ends of sentences to fit a model's maximum length.

Neighbouring passages overlap by a few sentences, so that what is at a border is complete in one of
them. Two long texts are compared by passages: each scores what it scores with the most similar
passage of the other text.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tertium.models.tokens import chunks, valid_text

if TYPE_CHECKING:
    from tertium.models.base import Model
    from tertium.models.tokenizer import Tokenizer

__all__ = [
    *("Alignment", "Count", "Span"),
    *("align", "counter", "cut_long", "cut_texts", "sentences"),
]

Span = tuple[int, int]  # first character, and the first one after the last

Count = Callable[[Sequence[str]], list[int]]  # tokens of each text, without special ones

_TOGETHER = 4096  # pairs of passages that are scored together
_LEAST = 8  # tokens in a passage; with less room, texts are not cut
_OVERLAP = 0.2  # maximum share of a passage that repeats the one before
_END = re.compile(
    "(?<=[.!?\u2026])[\"')\\]\u00bb\u201d\u2019]*\\s+"  # a full stop, closing quotes, white space
    "|(?<=[\u3002\uff01\uff1f])\\s*"  # Chinese and Japanese ones need no white space
    r"|\s*\n\s*\n\s*"  # an empty line
)


def sentences(text: str) -> list[Span]:
    """Where sentences begin and end, without the white space between them.

    >>> [("One. Two!"[a:b]) for a, b in sentences("One. Two!")]
    ['One.', 'Two!']
    """
    found, start = list[Span](), len(text) - len(text.lstrip())
    for match in _END.finditer(text):
        stop = match.start() + len(match[0].rstrip())
        if stop > start:
            found.append((start, stop))
            start = match.end()
    end = len(text.rstrip())
    return [*found, (start, end)] if end > start else found


def cut_long(
    model: "Model", texts: Sequence[str], *, prompt: str | None = None
) -> list[list[Span]]:
    """The passages of each text; none for a text that the model reads whole.

    Args:
        model: a model without readers, or with only static ones, reads everything.
        texts: texts of any length.
        prompt: precedes every passage (default: the model's).
    """
    readers = [reader for reader in model.readers if reader.max_length < sys.maxsize]
    if not readers:
        return [[] for _ in texts]
    reader = min(readers, key=lambda each: each.max_length)
    before = reader.prompt if prompt is None else prompt
    budget = reader.max_length - len(reader.text_tokenizer.ids([before])[0])
    # A text has at most as many tokens as bytes.
    long = [at for at, text in enumerate(texts) if len(text) > budget // 4]
    long = [at for at in long if len(texts[at].encode(errors="replace")) > budget]
    found: list[list[Span]] = [[] for _ in texts]
    for at, spans in zip(
        long,
        cut_texts([texts[at] for at in long], counter(reader.text_tokenizer), budget),
        strict=True,
    ):
        found[at] = spans
    return found


def counter(tokenizer: "Tokenizer") -> Count:
    """A function that counts tokens without special ones."""
    frame = len(tokenizer.ids([""])[0])
    return lambda texts: [len(ids) - frame for ids in tokenizer.ids(list(map(valid_text, texts)))]


def cut_texts(texts: Sequence[str], count: Count, budget: int) -> list[list[Span]]:
    """The passages of each text, of at most ``budget`` tokens; none for a text that fits."""
    if budget < _LEAST or not texts:
        return [[] for _ in texts]
    return [
        _cut(text, count, budget) if length > budget else []
        for text, length in zip(texts, count(texts), strict=True)
    ]


def _cut(text: str, count: Count, budget: int) -> list[Span]:
    pieces = sentences(text)
    lengths = count([text[a:b] for a, b in pieces])
    while max(lengths) > budget:  # a sentence that is too long is cut between words
        pieces = [
            part
            for piece, length in zip(pieces, lengths, strict=True)
            for part in ([piece] if length <= budget else _halves(text, piece))
        ]
        lengths = count([text[a:b] for a, b in pieces])
    return list(_packed(pieces, lengths, budget))


def _packed(pieces: Sequence[Span], lengths: Sequence[int], budget: int) -> Iterator[Span]:
    """Passages of as many sentences as fit, each starting with the last few of the one before."""
    first, total = 0, 0
    for at, length in enumerate(lengths):
        if total + length > budget:
            yield pieces[first][0], pieces[at - 1][1]
            first, total = at, 0
            while lengths[first - 1] + total <= min(_OVERLAP * budget, budget - length):
                first -= 1
                total += lengths[first]
        total += length
    yield pieces[first][0], pieces[-1][1]


def _halves(text: str, piece: Span) -> list[Span]:
    start, stop = piece
    middle = (start + stop) // 2
    spaces = (text.rfind(" ", start + 1, middle), text.find(" ", middle, stop - 1))
    near = min((at for at in spaces if at > 0), key=lambda at: abs(at - middle), default=middle)
    return [(start, near), (near + (text[near] == " "), stop)]


@dataclass(frozen=True)
class Alignment:
    """Pairs or triples whose texts are compared by their passages.

    Attributes:
        parts: all distinct passages; a text that is read whole is one passage.
        places: for both texts of each item, the positions of their passages in ``parts``.
        rest: the condition of each item, if it has one.
        cut: number of items whose passages are not all read.
    """

    parts: list[str]
    places: list[tuple[list[int], list[int]]]
    rest: list[tuple[str, ...]]
    cut: int

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every passage of the first text with every one of the second, item by item."""
        return ((a, b) for first, second in self.places for a in first for b in second)

    def items(self) -> Iterator[tuple[Any, ...]]:
        """The same as texts, with the item's condition."""
        for (first, second), rest in zip(self.places, self.rest, strict=True):
            for a in first:
                yield from ((self.parts[a], self.parts[b], *rest) for b in second)

    def score(self, score: Callable[[list[Any]], NDArray[Any]]) -> NDArray[np.float32]:
        """Scores of the items, from the scores of pairs of passages."""
        return self.join(np.concatenate([score(some) for some in chunks(self.items(), _TOGETHER)]))

    def score_vectors(
        self,
        vectors: NDArray[Any],
        score: Callable[[list[Any], NDArray[Any], NDArray[Any]], NDArray[Any]],
    ) -> NDArray[np.float32]:
        """The same from the vectors of ``parts``."""
        found = []
        for some in chunks(self.pairs(), _TOGETHER):
            first, second = (list(side) for side in zip(*some, strict=True))
            texts = [(self.parts[a], self.parts[b]) for a, b in some]
            found.append(score(texts, vectors[first], vectors[second]))
        return self.join(np.concatenate(found))

    def join(self, scores: NDArray[Any]) -> NDArray[np.float32]:
        """The score of each item: the mean over the passages of both texts, with equal weight.

        A passage scores what it scores with the best passage of the other text.
        """
        found = np.empty(len(self.places), np.float32)
        start = 0
        for at, (first, second) in enumerate(self.places):
            block = scores[start : start + len(first) * len(second)]
            block = block.reshape(len(first), len(second))
            found[at] = (block.max(axis=1).mean() + block.max(axis=0).mean()) / 2
            start += block.size
        return found


def align(
    items: Sequence[tuple[str, ...]], spans: Sequence[list[Span]], *, most: int | None = None
) -> Alignment | None:
    """Items split into passages; None if all texts are read whole.

    Args:
        items: two texts each, perhaps with a condition.
        spans: the passages of first and second texts in turn; none for a text that is read whole.
        most: maximum passages of a text; None for all.
    """
    if not any(spans):
        return None
    parts: dict[str, int] = {}
    places: list[list[int]] = []
    for at, cuts in enumerate(spans):
        text = items[at // 2][at % 2]
        passages = [text[a:b] for a, b in cuts[:most]] or [text]
        places.append([parts.setdefault(passage, len(parts)) for passage in passages])
    long = [most is not None and len(cuts) > most for cuts in spans]
    return Alignment(
        list(parts),
        list(zip(places[0::2], places[1::2], strict=True)),
        [tuple(item[2:]) for item in items],
        sum(a or b for a, b in zip(long[0::2], long[1::2], strict=True)),
    )
