"""Texts and triples as a model takes them: tokenized once, cut to what it reads, run together."""

import warnings
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tertium.errors import TertiumWarning
from tertium.models.base import Embedder, Model, TripleScorer
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats, beginning
from tertium.serve.batching import Matrix, Tokenized
from tertium.types import TextTriple

__all__ = ["TextReader", "TripleReader"]

_MOST = 131_072  # characters of a text for a model that has no limit of its own


class TextReader:
    """Texts to vectors. A single encoder is given the tokens that were counted, and no text twice.

    Args:
        model: anything with ``encode``.
    """

    def __init__(self, model: Embedder) -> None:
        self.model = model
        single = len(model.readers) == 1 and bool(model.parts)
        self._encoder: TextEncoder | None = model.readers[0] if single else None
        self._count = _counter(model)
        self._most = _characters(model)

    def size(self, content: str) -> int:
        """Characters that are read."""
        return min(len(content), self._most)

    def read(self, contents: Sequence[str]) -> list[Tokenized]:
        """Tokens of every text."""
        texts = [beginning(text, self._most) for text in contents]
        short = [len(text) < len(whole) for text, whole in zip(texts, contents, strict=True)]
        if self._encoder is None:
            return [Tokenized(*each) for each in zip(texts, self._count(texts), short, strict=True)]
        seen = TokenizationStats()
        rows = self._encoder.tokenize(texts, truncation=seen)
        full = [len(ids) >= self._encoder.max_length for ids in rows]  # and longer, perhaps
        sure = seen.cut in (0, sum(full))
        found = []
        for text, cut, ids, filled in zip(texts, short, rows, full, strict=True):
            longer = filled and (seen.cut > 0 if sure else self._is_cut(text))
            found.append(Tokenized(text, len(ids), cut or longer, ids))
        return found

    def run(self, items: Sequence[Tokenized]) -> Matrix:
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
        alone = TokenizationStats()
        self._encoder.tokenize([text], truncation=alone)
        return bool(alone.cut)


class TripleReader:
    """Two sentences and a condition to scores. Counts tokens of each text apart from the others.

    Args:
        model: anything that scores triples.
    """

    def __init__(self, model: TripleScorer) -> None:
        self.model = model
        self._count = _counter(model)
        self._most = _characters(model)

    def size(self, content: Sequence[str]) -> int:
        """Characters that are read of all three."""
        return sum(min(len(text), self._most) for text in content)

    def read(self, contents: Sequence[Sequence[str]]) -> list[Tokenized]:
        """Tokens of every triple."""
        triples = [tuple(beginning(text, self._most) for text in triple) for triple in contents]
        counts = self._count([text for triple in triples for text in triple])
        sums = np.asarray(counts, int).reshape(-1, 3).sum(axis=1).tolist()
        return [Tokenized(*each) for each in zip(triples, sums, strict=True)]

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """A score for each item."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            triples = [cast(TextTriple, item.key) for item in items]
            return np.asarray(self.model.score(triples, progress=False), np.float32)


def _characters(model: Model) -> int:
    """How much of a text is read, whatever follows."""
    return max((min(encoder.max_characters, _MOST) for encoder in model.readers), default=_MOST)


def _counter(model: Model) -> Callable[[Sequence[str]], list[int]]:
    """Counts tokens of texts; words, for a model of which nothing is known."""
    if model.readers:
        return model.readers[0].count_tokens
    return lambda texts: [len(text.split()) + 2 for text in texts]
