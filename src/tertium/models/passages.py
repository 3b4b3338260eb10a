"""Long texts in passages: cut at the ends of sentences, so that none is longer than a model reads.

Neighbours share some sentences, so that what stands at a border is found whole in one of them.
"""

import re
from collections.abc import Iterator, Sequence

from tertium.models.base import Model
from tertium.models.text_encoder import TextEncoder

__all__ = ["Span", "cut_long", "sentences"]

Span = tuple[int, int]  # first character, and the first one after the last

_OVERLAP = 0.2  # share of a passage that the one before it may have as well
_END = re.compile(
    "(?<=[.!?\u2026])[\"')\\]\u00bb\u201d\u2019]*\\s+"  # a full stop, closing quotes, white space
    "|(?<=[\u3002\uff01\uff1f])\\s*"  # those of Chinese and Japanese need no white space
    r"|\s*\n\s*\n\s*"  # an empty line
)


def sentences(text: str) -> list[Span]:
    """Where sentences begin and end; white space between them belongs to none.

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


def cut_long(model: Model, texts: Sequence[str], *, prompt: str | None = None) -> list[list[Span]]:
    """The passages of each text; a text that the model reads whole has none.

    Args:
        model: with readers; one that has none reads everything.
        texts: any.
        prompt: put before every passage (default: that of the model).
    """
    if not model.readers:
        return [[] for _ in texts]
    reader = min(model.readers, key=lambda each: each.max_length)
    before = reader.prompt if prompt is None else prompt
    budget = reader.max_length - len(reader.text_tokenizer.ids([before])[0])
    # No tokenizer makes more tokens than there are bytes.
    long = [at for at, text in enumerate(texts) if len(text) > budget // 4]
    long = [at for at in long if len(texts[at].encode(errors="replace")) > budget]
    lengths = _count(reader, [texts[at] for at in long])
    found: list[list[Span]] = [[] for _ in texts]
    for at, length in zip(long, lengths, strict=True):
        if length > budget > 0:
            found[at] = list(_packed(reader, texts[at], budget))
    return found


def _count(reader: TextEncoder, texts: Sequence[str]) -> list[int]:
    """Tokens of each text itself."""
    if not texts:
        return []
    tokenizer = reader.text_tokenizer
    frame = len(tokenizer.ids([""])[0])
    return [len(ids) - frame for ids in tokenizer.ids(list(texts))]


def _packed(reader: TextEncoder, text: str, budget: int) -> Iterator[Span]:
    """As many sentences as fit, then those that follow and the last few before them."""
    pieces = sentences(text)
    lengths = _count(reader, [text[a:b] for a, b in pieces])
    while max(lengths) > budget:  # a sentence that is too long is cut between words
        pieces = [
            part
            for piece, length in zip(pieces, lengths, strict=True)
            for part in ([piece] if length <= budget else _halves(text, piece))
        ]
        lengths = _count(reader, [text[a:b] for a, b in pieces])
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
