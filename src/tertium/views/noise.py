"""Random changes to tokens: dropout, deletion, repetition and span-masking views, and masking.

:func:`mask_tokens` is not a view: it hides tokens for the masked-language-model term.
"""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from tertium.errors import TertiumError
from tertium.types import Tokens
from tertium.views.base import Attend, View, Vocabulary, resample

__all__ = ["NOT_MASKED", "Deletion", "DropoutTwin", "Repetition", "SpanMask", "mask_tokens"]

NOT_MASKED = -100  # label of positions that were not hidden


class DropoutTwin(View):
    """The same tokens again: the views differ by the encoder's dropout (SimCSE)."""

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """The batch unchanged."""
        return tokens


class Deletion(View):
    """Drop each content token with probability ``rate``; one always stays."""

    def __init__(self, vocabulary: Vocabulary, *, rate: float = 0.1) -> None:
        super().__init__(vocabulary)
        self.rate = _share(rate)

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """The batch with fewer tokens, in order."""
        content = self.vocabulary.content(tokens)
        chance = _uniform(tokens.ids, generator).masked_fill(~content, 1.0)
        dropped = content & (chance < self.rate)
        luckiest = chance.masked_fill(~content, -1.0).argmax(dim=1, keepdim=True)
        dropped = dropped.scatter(1, luckiest, value=False)
        return resample(tokens, 1 - dropped.long(), padding=self.vocabulary.padding)


class Repetition(View):
    """Repeat some tokens: ESimCSE (Wu et al., 2022), "word repetition", on word pieces.

    Up to ``max(2, rate · n)`` of a sentence's n content tokens are doubled; the number is drawn
    uniformly, including zero. No sentence becomes longer than the model can read.
    """

    def __init__(self, vocabulary: Vocabulary, *, rate: float = 0.32) -> None:
        super().__init__(vocabulary)
        self.rate = _share(rate)

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """The batch with more tokens, in order."""
        content = self.vocabulary.content(tokens)
        most = (self.rate * content.sum(dim=1)).long().clamp(min=2)
        drawn = (_uniform(tokens.ids[:, :1], generator).squeeze(1) * (most + 1)).long()
        if self.vocabulary.longest is not None:
            room = (self.vocabulary.longest - tokens.mask.sum(dim=1)).clamp(min=0)
            drawn = torch.minimum(drawn, room)
        chance = _uniform(tokens.ids, generator).masked_fill(~content, 2.0)
        ranks = chance.argsort(dim=1).argsort(dim=1)
        repeated = content & (ranks < drawn[:, None])
        return resample(tokens, 1 + repeated.long(), padding=self.vocabulary.padding)


class SpanMask(View):
    """Replace a span of text by one mask token: Mirror-BERT (Liu et al., 2021), section 2.

    The span of ``characters`` starts at a random character; every token it touches is hidden. The
    authors cut the string itself, so that the rest of a word survives as other word pieces.
    """

    def __init__(self, vocabulary: Vocabulary, *, characters: int = 5) -> None:
        if characters < 1:
            raise TertiumError(f"characters must be at least 1, got {characters}.")
        super().__init__(vocabulary)
        self.characters = characters
        self.mask_id = vocabulary.mask_id

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """The batch with one mask token in place of the span."""
        content = self.vocabulary.content(tokens)
        widths = self.vocabulary.characters.to(tokens.ids.device)[tokens.ids] * content
        ends = widths.cumsum(dim=1)
        starts = ends - widths
        room = (ends[:, -1:] - self.characters + 1).clamp(min=1)
        start = (_uniform(tokens.ids[:, :1], generator) * room).long()
        hidden = content & (ends > start) & (starts < start + self.characters)
        first = hidden & (hidden.cumsum(dim=1) == 1)
        ids = tokens.ids.masked_fill(first, self.mask_id)
        counts = 1 - (hidden & ~first).long()
        return resample(replace(tokens, ids=ids), counts, padding=self.vocabulary.padding)


def mask_tokens(
    tokens: Tokens,
    vocabulary: Vocabulary,
    *,
    probability: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Tokens, Int[Tensor, "n t"]]:
    """Mask content tokens as BERT does (Devlin et al., 2019, section 3.1).

    Of the chosen tokens 80 % become the mask token, 10 % a random one, and 10 % stay as they are.
    Returns the changed tokens and, as labels, the original ids of the chosen ones.
    """
    ids = tokens.ids
    draw = torch.rand((3, *ids.shape), generator=generator, device=ids.device)
    chosen = vocabulary.content(tokens) & (draw[0] < probability)
    labels = ids.masked_fill(~chosen, NOT_MASKED)
    random = (draw[2] * vocabulary.size).long().clamp(max=vocabulary.size - 1)
    changed = torch.where(chosen & (draw[1] >= 0.9), random, ids)
    changed = changed.masked_fill(chosen & (draw[1] < 0.8), vocabulary.mask_id)
    return Tokens(changed, tokens.mask), labels


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device)


def _share(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise TertiumError(f"rate must be between 0 and 1, got {rate}.")
    return rate
