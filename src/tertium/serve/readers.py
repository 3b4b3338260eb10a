"""Tokenize texts, pairs and triples once, and run them in batches."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tertium.errors import TertiumWarning
from tertium.models.base import Embedder, Model
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats, beginning
from tertium.serve.batching import Matrix, Tokenized
from tertium.serve.errors import APIError

__all__ = ["JointReader", "TextReader"]

_MOST = 131_072  # maximum characters of a text, for a model without a limit of its own


class TextReader:
    """From texts to vectors. A single encoder reuses the token ids, so texts are tokenized once.

    Args:
        model: anything with ``encode``.
    """

    def __init__(self, model: Embedder) -> None:
        self.model = model
        inside = model.vector_model
        single = len(inside.readers) == 1 and bool(inside.parts)
        self._encoder: TextEncoder | None = inside.readers[0] if single else None
        self._count = _counter(inside)
        self._most = _characters(inside)

    def size(self, content: str | list[int]) -> int:
        """Characters that are tokenized, or the number of given token ids."""
        return min(len(content), self._most)

    def read(self, contents: Sequence[str] | Sequence[list[int]]) -> list[Tokenized]:
        """Tokenize texts; given token ids are checked."""
        if contents and not isinstance(contents[0], str):
            return [self._given(ids) for ids in cast("Sequence[list[int]]", contents)]
        return self._read(cast("Sequence[str]", contents))

    def _given(self, ids: list[int]) -> Tokenized:
        """Check that token ids start and end with the special tokens of this model."""
        encoder = self._encoder
        frame = [] if encoder is None else encoder.text_tokenizer.ids([""])[0]
        if encoder is None or len(frame) < 2 or [ids[0], ids[-1]] != [frame[0], frame[-1]]:
            raise APIError(
                400,
                "token_array",
                "These are not token ids of this model: they do not start and end with its special "
                "tokens. Some clients use another model's tokenizer: send texts instead (in "
                "LangChain: OpenAIEmbeddings(check_embedding_ctx_length=False)).",
                param="input",
            )
        if max(ids) >= int(encoder.backbone_config["vocab_size"]):
            message = f"The vocabulary of this model has no token {max(ids)}."
            raise APIError(400, "token_array", message, param="input")
        cut = len(ids) > encoder.max_length
        read = [*ids[: encoder.max_length - 1], ids[-1]] if cut else ids
        return Tokenized(tuple(read), len(read), cut, read)

    def _read(self, contents: Sequence[str]) -> list[Tokenized]:
        texts = [beginning(text, self._most) for text in contents]
        short = [len(text) < len(whole) for text, whole in zip(texts, contents, strict=True)]
        if self._encoder is None:
            return [Tokenized(*each) for each in zip(texts, self._count(texts), short, strict=True)]
        seen = TokenizationStats()
        rows = self._encoder.tokenize(texts, truncation=seen)
        full = [len(ids) >= self._encoder.max_length for ids in rows]  # perhaps truncated
        sure = seen.cut in (0, sum(full))
        found = []
        for text, cut, ids, filled in zip(texts, short, rows, full, strict=True):
            longer = filled and (seen.cut > 0 if sure else self._is_cut(text))
            found.append(Tokenized(text, len(ids), cut or longer, ids))
        return found

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """One vector per item."""
        if self._encoder is not None:
            return self._encoder.encode_ids([item.ids or [] for item in items])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            texts = [cast(str, item.key) for item in items]
            return np.asarray(self.model.encode(texts, progress=False), np.float32)

    def _is_cut(self, text: str) -> bool:
        """Tokenize a text of maximum length again by itself, to see whether it was truncated."""
        assert self._encoder is not None
        alone = TokenizationStats()
        self._encoder.tokenize([text], truncation=alone)
        return bool(alone.cut)


class JointReader:
    """From triples, or pairs that are read together, to scores.

    Args:
        model: anything that scores them.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._count = _counter(model)
        self._most = _characters(model)

    def size(self, content: Sequence[str]) -> int:
        """Characters that are tokenized."""
        return sum(min(len(text), self._most) for text in content)

    def read(self, contents: Sequence[Sequence[str]]) -> list[Tokenized]:
        """Count the tokens of each triple or pair, text by text."""
        items = [tuple(beginning(text, self._most) for text in item) for item in contents]
        counts = iter(self._count([text for item in items for text in item]))
        sums = [sum(itertools.islice(counts, len(item))) for item in items]
        return [Tokenized(*each) for each in zip(items, sums, strict=True)]

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """One score per item, perhaps beyond the scale."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TertiumWarning)
            texts = [cast(tuple[str, ...], item.key) for item in items]
            found = self.model.score_items(texts, truncation=TokenizationStats())
            return np.asarray(found, np.float32)


def _characters(model: Model) -> int:
    """Maximum characters of a text that can influence the model."""
    return max((min(encoder.max_characters, _MOST) for encoder in model.readers), default=_MOST)


def _counter(model: Model) -> Callable[[Sequence[str]], list[int]]:
    """Counts the tokens of texts; words, if the model has no known tokenizer."""
    if model.readers:
        return model.readers[0].count_tokens
    return lambda texts: [len(text.split()) + 2 for text in texts]
