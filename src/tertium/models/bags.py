"""Texts as bags of tokens, which is all that a static model reads."""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.models.base import Part
from tertium.models.graphs import GraphSource
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokenizer import Tokenizer
from tertium.models.tokens import TokenizationStats, unique, valid_text
from tertium.progress import bar
from tertium.types import Kind, Pooling

__all__ = ["BagEncoder", "check_whole"]

Matrix = NDArray[np.float32]

_TEXTS = 512  # per batch: its rows stay in the CPU's caches


class BagEncoder(TextEncoder):
    """From a text to the mean of its tokens' vectors; a subclass provides :meth:`_means`.

    The order of words makes no difference, texts of any length are read whole, and an empty text
    is a vector of zeros, whose cosine with anything is 0. There is no backbone to train or
    inspect.
    """

    kind = Kind.STATIC
    parts: tuple[Part, ...] = ()  # there is no graph, and no engine is needed
    max_length = sys.maxsize  # texts are read whole

    @property
    @abstractmethod
    def _backend(self) -> Any:
        """The tokenizer, of ``tokenizers``."""

    @abstractmethod
    def _means(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> Matrix:
        """A vector for each text, from the tokens of all texts and the number in each."""

    @property
    def text_tokenizer(self) -> Tokenizer:
        """Raises: there is none for a transformer."""
        raise self._refusal()

    @property
    def backbone_config(self) -> dict[str, Any]:
        """Raises: there is no backbone."""
        raise self._refusal()

    def graph_source(self) -> GraphSource:
        """Raises: there is no graph."""
        raise self._refusal()

    @property
    def graph_fingerprint(self) -> str:
        """The hash of the model, since there is no graph."""
        return self.fingerprint

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, at least 1."""
        found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [max(len(each.ids), 1) for each in found]

    def _encode(
        self,
        texts: list[str],
        *,
        prompt: str,
        budget: int,
        batch_size: int | None,
        progress: bool | None,
        truncation: TokenizationStats,
    ) -> Matrix:
        distinct, rows = unique(texts)
        distinct = [prompt + valid_text(text) for text in distinct]
        result = np.empty((len(distinct), self.width), np.float32)
        unknown = 0
        with bar(total=len(distinct), label="encoding", unit="text", show=progress) as shown:
            for start in range(0, len(distinct), _TEXTS):
                ids, lengths, strange = _bags(self._backend, distinct[start : start + _TEXTS])
                result[start : start + len(lengths)] = self._means(ids, lengths)
                unknown += strange
                shown.update(len(lengths))
        truncation.add(cut=0, texts=len(distinct), limit=self.max_length, unknown=unknown)
        return result if len(distinct) == len(texts) else result[rows]

    def _run(self, ids: NDArray[Any], mask: NDArray[Any], prompt_length: int) -> Matrix:
        raise self._refusal()

    def _refusal(self) -> TertiumError:
        return TertiumError(
            f"{self.name} is static: it has no transformer to train, export or look into. Name the "
            "model that it was made of."
        )


def check_whole(name: str, pooling: Pooling | None, max_length: int | None) -> None:
    """Raise if an option would change how a static model reads texts."""
    if pooling is not None or max_length is not None:
        raise TertiumError(
            f"{name} is static: it always takes the mean of a whole text. Leave pooling and "
            "max_length out."
        )


def _bags(tokenizer: Any, texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Tokens of all texts, the number in each, and how many texts contain only unknown ones."""
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    rows = [encoding.ids for encoding in found]
    ids = np.fromiter((token for row in rows for token in row), np.int64)
    lengths = np.array([len(row) for row in rows], np.int64)
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "")
    known = np.bincount(
        np.repeat(np.arange(len(rows)), lengths)[ids != unknown], minlength=len(rows)
    )
    return ids, lengths, int(((lengths > 0) & (known == 0)).sum())
