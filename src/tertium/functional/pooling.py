"""From token vectors to a sentence vector."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tertium.types import LAYER_MIXES, Pooling

__all__ = ["masked_mean", "pool"]


def masked_mean(tokens: Float[Tensor, "n t d"], mask: Int[Tensor, "n t"]) -> Float[Tensor, "n d"]:
    """Mean over real tokens (special tokens count, padding does not)."""
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def pool(
    hidden_states: Sequence[Float[Tensor, "n t d"]], mask: Int[Tensor, "n t"], pooling: Pooling
) -> Float[Tensor, "n d"]:
    """Apply a pooling to all hidden states (the embedding output first).

    ``cls_mlp`` and ``pooler`` pool like ``cls``; their linear layer and tanh come after.
    """
    if pooling in LAYER_MIXES:
        one, other = LAYER_MIXES[pooling]
        return masked_mean((hidden_states[one] + hidden_states[other]) / 2, mask)
    if pooling is Pooling.MEAN:
        return masked_mean(hidden_states[-1], mask)
    if pooling is Pooling.LAST:
        places = torch.arange(mask.shape[1], device=mask.device)
        last = (places * mask).argmax(dim=1)  # wherever the padding is
        return hidden_states[-1][torch.arange(len(mask), device=mask.device), last]
    return hidden_states[-1][:, 0]
