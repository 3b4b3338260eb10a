"""Hidden tokens for the masked-language-model term."""

import torch
from jaxtyping import Int
from torch import Tensor

from tertium.types import Tokens
from tertium.views.base import Vocabulary

__all__ = ["NOT_MASKED", "mask_tokens"]

NOT_MASKED = -100  # label of positions that were not hidden


def mask_tokens(
    tokens: Tokens,
    vocabulary: Vocabulary,
    *,
    probability: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Tokens, Int[Tensor, "n t"]]:
    """Hide tokens of content as BERT does (Devlin et al., 2019, section 3.1).

    Of the chosen tokens 80 % become the mask token, 10 % a random one, 10 % stay as they are.
    Returns the changed tokens and, as labels, the ids that were hidden.
    """
    ids = tokens.ids
    draw = torch.rand((3, *ids.shape), generator=generator, device=ids.device)
    chosen = vocabulary.content(tokens) & (draw[0] < probability)
    labels = ids.masked_fill(~chosen, NOT_MASKED)
    random = (draw[2] * vocabulary.size).long().clamp(max=vocabulary.size - 1)
    changed = torch.where(chosen & (draw[1] >= 0.9), random, ids)
    changed = changed.masked_fill(chosen & (draw[1] < 0.8), vocabulary.mask_id)
    return Tokens(changed, tokens.mask), labels
