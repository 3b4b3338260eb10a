"""How models read: texts and triples to tokens once, then what was read to rows of results."""

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumWarning
from tertium.models import Encoder, StaticEncoder
from tertium.models.average import ConditionalAverage
from tertium.models.encoder import Truncation, beginning
from tertium.models.ensemble import Ensemble
from tertium.models.pair import PairScorer

__all__ = ["Item", "Reader", "TextReader", "TripleReader"]

Matrix = NDArray[np.float32]

_MOST = 131_072  # characters of a text for a model that has no limit of its own


@dataclass(frozen=True)
class Item:
    """A text or triple that was read.

    Attributes:
        key: the same for what gives the same row.
        tokens: how many of it the model reads.
        cut: whether there were more.
        ids: its tokens, for a model that takes them.
    """

    key: Hashable
    tokens: int
    cut: bool = False
    ids: list[int] | None = None


class Reader(Protocol):
    """Reads, then runs what was read."""

    def size(self, content: Any) -> int:
        """Characters of a text or triple that are read; what is beyond them is cut unread."""
        ...

    def read(self, contents: Sequence[Any]) -> list[Item]:
        """An item for each text or triple."""
        ...

    def run(self, items: Sequence[Item]) -> Matrix:
        """A row for each item."""
        ...


class TextReader:
    """Texts to vectors. A single encoder is given the tokens that were counted, and no text twice.

    Args:
        model: anything with ``encode``.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        inside = model.encoder if isinstance(model, PairScorer) else model
        plain = isinstance(inside, Encoder) and not isinstance(inside, StaticEncoder)
        self._encoder: Encoder | None = inside if plain else None
        self._count = _counter(inside)
        self._most = _characters(inside)

    def size(self, content: str) -> int:
        """Characters that are read."""
        return min(len(content), self._most)

    def read(self, contents: Sequence[str]) -> list[Item]:
        """Tokens of every text."""
        texts = [beginning(text, self._most) for text in contents]
        short = [len(text) < len(whole) for text, whole in zip(texts, contents, strict=True)]
        if self._encoder is None:
            return [Item(*each) for each in zip(texts, self._count(texts), short, strict=True)]
        seen = Truncation()
        rows = self._encoder.tokenize(texts, truncation=seen)
        full = [len(ids) >= self._encoder.max_length for ids in rows]  # and longer, perhaps
        sure = seen.cut in (0, sum(full))
        found = []
        for text, cut, ids, filled in zip(texts, short, rows, full, strict=True):
            longer = filled and (seen.cut > 0 if sure else self._is_cut(text))
            found.append(Item(text, len(ids), cut or longer, ids))
        return found

    def run(self, items: Sequence[Item]) -> Matrix:
        """A vector for each item."""
        if self._encoder is not None:
            return self._encoder.encode_ids([item.ids or [] for item in items])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            texts = [cast(str, item.key) for item in items]
            return np.asarray(self.model.encode(texts, progress=False), np.float32)

    def _is_cut(self, text: str) -> bool:
        """Read a text that fills the model again, by itself: others are longer than the model."""
        assert self._encoder is not None
        alone = Truncation()
        self._encoder.tokenize([text], truncation=alone)
        return bool(alone.cut)


class TripleReader:
    """Two sentences and a condition to scores. Counts tokens of each text apart from the others.

    Args:
        model: anything that scores triples.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        inside = model
        while isinstance(inside, ConditionalAverage):
            inside = inside.members[0]
        inside = getattr(inside, "encoder", inside)
        self._count = _counter(inside)
        self._most = _characters(inside)

    def size(self, content: Sequence[str]) -> int:
        """Characters that are read of all three."""
        return sum(min(len(text), self._most) for text in content)

    def read(self, contents: Sequence[Sequence[str]]) -> list[Item]:
        """Tokens of every triple."""
        triples = [tuple(beginning(text, self._most) for text in triple) for triple in contents]
        counts = self._count([text for triple in triples for text in triple])
        sums = np.asarray(counts, int).reshape(-1, 3).sum(axis=1).tolist()
        return [Item(*each) for each in zip(triples, sums, strict=True)]

    def run(self, items: Sequence[Item]) -> Matrix:
        """A score for each item."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            triples = [item.key for item in items]
            return np.asarray(self.model.score(triples, progress=False), np.float32)


def _characters(model: Any) -> int:
    """How much of a text is read, whatever follows."""
    if isinstance(model, Ensemble):
        return max(_characters(member.encoder) for member in model.members)
    return min(model.max_characters, _MOST) if isinstance(model, Encoder) else _MOST


def _counter(model: Any) -> Callable[[Sequence[str]], list[int]]:
    """Counts tokens of texts; words, for a model of which nothing is known."""
    if isinstance(model, Ensemble):
        return _counter(model.members[0].encoder)
    if isinstance(model, StaticEncoder):
        static: Any = model.model[0]

        def bags(texts: Sequence[str]) -> list[int]:
            found = static.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
            return [max(len(each.ids), 1) for each in found]

        return bags
    if isinstance(model, Encoder):
        return lambda texts: [len(row) for row in model.tokenize(texts, truncation=Truncation())]
    return lambda texts: [len(text.split()) + 2 for text in texts]
