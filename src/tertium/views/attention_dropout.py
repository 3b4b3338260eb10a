"""ADD: drop the tokens that receive the least attention."""

from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tertium.errors import TertiumError
from tertium.functional import attention_rollout, received_attention
from tertium.types import Aggregation, Tokens
from tertium.views.base import Attend, View, Vocabulary, resample

__all__ = ["Aggregation", "AttentionDropout", "Rate", "drop_counts", "least_attended"]


class Rate(StrEnum):
    """How many tokens are dropped."""

    STATIC = "static"  # k, from t tokens on
    DYNAMIC = "dynamic"  # one for every t tokens


_SCORES = {Aggregation.NAIVE: received_attention, Aggregation.ROLLOUT: attention_rollout}


class AttentionDropout(View):
    """Attention-driven dropout (ADD): the k least attended tokens are dropped before encoding.

    Args:
        vocabulary: of the model's tokenizer.
        aggregation: ``naive`` (attention received) or ``rollout``.
        rate: ``static`` drops ``k`` tokens of sentences with at least ``t``; ``dynamic`` drops
            one for every ``t`` tokens. Special tokens count as tokens.
        k: tokens to drop, for ``static``.
        t: minimum length of a sentence, or tokens per dropped token.
        last_layer_only: score by the last layer only.
        protect_special_tokens: never drop CLS, SEP and the last token of content. The authors'
            code drops them like any other.
        shorten_mask: attend only to the remaining tokens. The authors' code keeps the old mask,
            so that the new padding is attended to.
        count_padding_queries: score as the authors' code does, see
            :func:`tertium.functional.received_attention`.
    """

    scores_tokens: ClassVar[bool] = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        aggregation: Aggregation = Aggregation.NAIVE,
        rate: Rate = Rate.STATIC,
        k: int = 1,
        t: int = 10,
        last_layer_only: bool = False,
        protect_special_tokens: bool = True,
        shorten_mask: bool = True,
        count_padding_queries: bool = False,
    ) -> None:
        if k < 0:
            raise TertiumError(f"k must not be negative, got {k}.")
        if t < 0 or (t == 0 and Rate(rate) is Rate.DYNAMIC):
            raise TertiumError(f"t must be {'positive' if t == 0 else 'at least 0'}, got {t}.")
        super().__init__(vocabulary)
        self.aggregation = Aggregation(aggregation)
        self.rate = Rate(rate)
        self.k = k
        self.t = t
        self.last_layer_only = last_layer_only
        self.protect_special_tokens = protect_special_tokens
        self.shorten_mask = shorten_mask
        self.counts_padding = count_padding_queries

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """Drop the tokens with the lowest scores."""
        counts = drop_counts(tokens.mask, rate=self.rate, k=self.k, t=self.t)
        if not counts.any():
            return tokens
        scores, droppable = self.scores(tokens, attend), self.droppable(tokens)
        dropped = least_attended(scores, counts, droppable, spared=self.spared)
        left = resample(tokens, 1 - dropped.long(), padding=self.vocabulary.padding)
        return left if self.shorten_mask else replace(left, mask=tokens.mask)

    def scores(self, tokens: Tokens, attend: Attend) -> Float[Tensor, "n t"]:
        """The score of each token; infinity for padding."""
        return _SCORES[self.aggregation](
            attend(tokens),
            tokens.mask,
            last_layer_only=self.last_layer_only,
            count_padding_queries=self.counts_padding,
        )

    @property
    def spared(self) -> int:
        """How many droppable tokens always stay, so that a protected sentence is never empty."""
        return 1 if self.protect_special_tokens else 0

    def droppable(self, tokens: Tokens) -> Bool[Tensor, "n t"]:
        """Which tokens may be dropped."""
        if self.protect_special_tokens:
            return self.vocabulary.content(tokens)
        return tokens.mask.bool()


def drop_counts(mask: Int[Tensor, "n t"], *, rate: Rate, k: int, t: int) -> Int[Tensor, " n"]:
    """Tokens to drop from each row: ADD's static and dynamic rates."""
    lengths = mask.sum(dim=1)
    return lengths // t if rate is Rate.DYNAMIC else k * (lengths >= t)


def least_attended(
    scores: Float[Tensor, "n t"],
    counts: Int[Tensor, " n"],
    droppable: Bool[Tensor, "n t"],
    *,
    spared: int = 0,
) -> Bool[Tensor, "n t"]:
    """Which tokens to drop: the ``counts`` lowest scores among the droppable ones.

    At least ``spared`` droppable tokens of a row always stay.
    """
    order = scores.masked_fill(~droppable, torch.inf).argsort(dim=1, stable=True)
    ranks = order.argsort(dim=1)
    most = (droppable.sum(dim=1) - spared).clamp(min=0)
    return droppable & (ranks < torch.minimum(counts, most)[:, None])
