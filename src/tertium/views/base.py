"""What every view is, and how tokens are left out or repeated without a loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tertium.errors import TertiumError
from tertium.types import Tokens

__all__ = ["Attend", "View", "Vocabulary", "resample"]

# From a batch to its attention weights, as the encoder that scores tokens gives them.
Attend = Callable[[Tokens], Float[Tensor, "l n h t t"]]


@dataclass(frozen=True)
class Vocabulary:
    """What a view must know of a tokenizer.

    Attributes:
        size: how many ids there are.
        padding: id of padding.
        mask: id that hides a token, or None where the tokenizer has none.
        boundaries: ids that frame a text (CLS, SEP and the like).
        characters: how many characters each id stands for.
        longest: how many tokens the model has positions for, or None where it sets no limit.
    """

    size: int
    padding: int
    mask: int | None
    boundaries: tuple[int, ...]
    characters: Int[Tensor, " v"]
    longest: int | None = None

    @property
    def mask_id(self) -> int:
        """The id that hides a token."""
        if self.mask is None:
            raise TertiumError("This model's tokenizer has no mask token.")
        return self.mask

    def content(self, tokens: Tokens) -> Bool[Tensor, "n t"]:
        """Where tokens are neither padding nor boundaries."""
        boundaries = torch.tensor(self.boundaries, device=tokens.ids.device)
        return tokens.mask.bool() & ~torch.isin(tokens.ids, boundaries)


class View(ABC):
    """A second form of the same sentences; views stack, each on the result of the one before.

    Attributes:
        scores_tokens: it scores tokens by an encoder's attention, which a recipe chooses.
        counts_padding: it looks at rows of padding, so that attention is computed in one pass.
    """

    scores_tokens: ClassVar[bool] = False
    counts_padding: bool = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @abstractmethod
    def __call__(
        self, tokens: Tokens, *, attend: Attend, generator: torch.Generator | None = None
    ) -> Tokens:
        """The changed batch.

        Args:
            tokens: ids and mask.
            attend: gives the attention weights of a batch, for a view that needs them.
            generator: of all randomness (default: torch's own).
        """


def resample(tokens: Tokens, counts: Int[Tensor, "n t"], *, padding: int) -> Tokens:
    """Every token as often as ``counts`` says, in order, gaps closed, padded on the right.

    Args:
        tokens: ids and mask; the count of padding is taken as 0.
        counts: 0 leaves a token out, 1 keeps it, 2 repeats it.
        padding: id of padding.
    """
    ends = (counts * tokens.mask).cumsum(dim=1)
    lengths = ends[:, -1]
    width = max(int(lengths.max()), tokens.ids.shape[1])
    places = torch.arange(width, device=tokens.ids.device).expand(len(ends), width).contiguous()
    sources = torch.searchsorted(ends, places, right=True).clamp(max=tokens.ids.shape[1] - 1)
    mask = (places < lengths[:, None]).to(tokens.mask.dtype)
    ids = tokens.ids.gather(1, sources).masked_fill(mask == 0, padding)
    if tokens.sources is not None:
        sources = tokens.sources.gather(1, sources)
    return Tokens(ids, mask, sources)
