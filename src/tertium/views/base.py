"""The base class of views, and dropping or repeating tokens without a loop."""

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

# From a batch to its attention weights in the encoder that scores tokens.
Attend = Callable[[Tokens], Float[Tensor, "l n h t t"]]


@dataclass(frozen=True)
class Vocabulary:
    """What a view needs to know about a tokenizer.

    Attributes:
        size: number of ids.
        padding: id of padding.
        mask: id of the mask token, or None if the tokenizer has none.
        boundaries: ids that frame a text (CLS, SEP and the like).
        characters: length of each token in characters, by id.
        longest: maximum number of tokens that the model reads, or None if it has no limit.
    """

    size: int
    padding: int
    mask: int | None
    boundaries: tuple[int, ...]
    characters: Int[Tensor, " v"]
    longest: int | None = None

    @property
    def mask_id(self) -> int:
        """The id of the mask token; raises if there is none."""
        if self.mask is None:
            raise TertiumError("This model's tokenizer has no mask token.")
        return self.mask

    def content(self, tokens: Tokens) -> Bool[Tensor, "n t"]:
        """Where tokens are neither padding nor boundaries."""
        boundaries = torch.tensor(self.boundaries, device=tokens.ids.device)
        return tokens.mask.bool() & ~torch.isin(tokens.ids, boundaries)


class View(ABC):
    """A second form of the same sentences; views can be chained.

    Attributes:
        scores_tokens: it scores tokens by the attention of an encoder that the recipe chooses.
        counts_padding: it uses rows of padding, so that attention must be computed in one pass.
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
            attend: returns the attention weights of a batch, for a view that needs them.
            generator: random generator (default: torch's own).
        """


def resample(tokens: Tokens, counts: Int[Tensor, "n t"], *, padding: int) -> Tokens:
    """Repeat or drop tokens according to ``counts``, in order, and pad on the right.

    Args:
        tokens: ids and mask; padding always counts 0.
        counts: 0 drops a token, 1 keeps it, 2 repeats it.
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
