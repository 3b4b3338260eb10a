"""Views made by chance: nothing at all, deletion, repetition, a masked span."""

from dataclasses import replace

import torch
from torch import Tensor

from tertium.errors import TertiumError
from tertium.types import Tokens
from tertium.views.base import Attend, View, Vocabulary, resample

__all__ = ["Deletion", "DropoutTwin", "Repetition", "SpanMask"]


class DropoutTwin(View):
    """The same tokens again: the encoder's own dropout makes the difference (SimCSE)."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """No change."""
        return tokens


class Deletion(View):
    """Leave out each token of content with probability ``rate``; one always stays."""

    def __init__(self, vocabulary: Vocabulary, *, rate: float = 0.1) -> None:
        self.vocabulary = vocabulary
        self.rate = _share(rate)

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """Fewer tokens, in order."""
        content = self.vocabulary.content(tokens)
        chance = _uniform(tokens.ids, generator).masked_fill(~content, 1.0)
        dropped = content & (chance < self.rate)
        luckiest = chance.masked_fill(~content, -1.0).argmax(dim=1, keepdim=True)
        dropped = dropped.scatter(1, luckiest, value=False)
        return resample(tokens, 1 - dropped.long(), padding=self.vocabulary.padding)


class Repetition(View):
    """Repeat some tokens: ESimCSE (Wu et al., 2022), "word repetition", on word pieces.

    Up to ``max(2, rate · n)`` of a sentence's n tokens of content are doubled; how many is drawn
    uniformly, zero included. No sentence becomes longer than the model can read.
    """

    def __init__(self, vocabulary: Vocabulary, *, rate: float = 0.32) -> None:
        self.vocabulary = vocabulary
        self.rate = _share(rate)

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """More tokens, in order."""
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
    """Hide a span of text behind one mask token: Mirror-BERT (Liu et al., 2021), section 2.

    The span of ``characters`` starts at a random character; every token it touches is hidden.
    The authors cut the string itself, so that the rest of a word survives as other word pieces.
    """

    def __init__(self, vocabulary: Vocabulary, *, characters: int = 5) -> None:
        if characters < 1:
            raise TertiumError(f"characters must be at least 1, got {characters}.")
        self.vocabulary = vocabulary
        self.characters = characters
        self.mask_id = vocabulary.mask_id

    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """One mask token where the span was."""
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


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device)


def _share(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise TertiumError(f"rate must be between 0 and 1, got {rate}.")
    return rate
