"""Sentences and a condition as one sequence of tokens, built from ids, never from joined text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.models.tokens import padded, valid_text

__all__ = ["JoinedIds", "TripleTokenizer", "shared_budget"]

_PADDING = -1


@dataclass(frozen=True)
class JoinedIds:
    """One sequence: its token ids, and where the condition begins.

    Attributes:
        ids: all tokens, special ones included.
        sentences: how many of them belong to the sentences; the rest is the condition.
        cut: whether the texts were longer than this.
    """

    ids: list[int]
    sentences: int
    cut: bool = False


class TripleTokenizer:
    """``CLS s1 SEP s2 SEP condition SEP``, segment by segment, within a length.

    Every text is tokenised by itself and its ids are put between the special ones, so that the
    place of each segment is known. A separator written inside a text is text.

    Args:
        tokenizer: of the model; it tells the special ids.
        max_length: most tokens of a sequence.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self._first = self._special("cls_token_id", "bos_token_id")
        self.separator = self._special("sep_token_id", "eos_token_id")
        self._padding = self._special("pad_token_id")

    def tokenize(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Ids of each distinct text, without special tokens."""
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        ids = self.tokenizer(
            [valid_text(text) for text in distinct],
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            verbose=False,
        )["input_ids"]
        return dict(zip(distinct, ids, strict=True))

    def join(self, sentences: Sequence[list[int]], condition: list[int] | None) -> JoinedIds:
        """One sequence of one or two sentences and, unless it is None or empty, a condition.

        What is too long is cut at its end: the longer sentence first, then both alike, and the
        condition only when a single token of each sentence is left.
        """
        parts = [*sentences, *([condition] if condition else [])]
        room = self.max_length - 1 - len(parts)
        if room < len(parts):
            raise TertiumError(
                f"A length of {self.max_length} leaves no room for two sentences and a condition; "
                "choose a larger max_length."
            )
        asked = condition or []
        least = sum(1 for sentence in sentences if sentence)
        kept = asked[: room - least]
        lengths = shared_budget([len(s) for s in sentences], budget=room - len(kept))
        ids = [self._first]
        for sentence, length in zip(sentences, lengths, strict=True):
            ids += [*sentence[:length], self.separator]
        before = len(ids)
        if kept:
            ids += [*kept, self.separator]
        cut = len(kept) < len(asked) or sum(lengths) < sum(map(len, sentences))
        return JoinedIds(ids, before, cut)

    def batch(self, rows: Sequence[JoinedIds], *, width: int | None = None) -> dict[str, Tensor]:
        """Ids, mask and segments of a batch, padded to its longest row or to ``width``."""
        rows_of_ids = padded([row.ids for row in rows], padding=self._padding, width=width)
        ids, real = map(torch.from_numpy, rows_of_ids)
        sentences = torch.tensor([row.sentences for row in rows])
        places = torch.arange(ids.shape[1])
        segments = (places >= sentences[:, None]).long().masked_fill(~real, _PADDING)
        return {"input_ids": ids, "attention_mask": real.long(), "segments": segments}

    def _special(self, *names: str) -> int:
        """The first of these ids that the tokenizer has."""
        ids = (getattr(self.tokenizer, name, None) for name in names)
        found = next((at for at in ids if at is not None), None)
        if found is None:
            raise TertiumError(
                f"This model's tokenizer has no {names[0].removesuffix('_token_id')} token, so it "
                "cannot read two sentences with a condition. Choose another backbone."
            )
        return int(found)


def shared_budget(lengths: Sequence[int], *, budget: int) -> list[int]:
    """Lengths that fit ``budget`` together: the longest is shortened first, the earlier keeps more.

    >>> shared_budget([10, 3], budget=8), shared_budget([10, 9], budget=7)
    ([5, 3], [4, 3])
    """
    order = sorted(range(len(lengths)), key=lambda at: (lengths[at], -at))
    fitted = list(lengths)
    for done, at in enumerate(order):
        left = budget - sum(fitted[earlier] for earlier in order[:done])
        fitted[at] = min(lengths[at], left // (len(order) - done))
    return fitted
