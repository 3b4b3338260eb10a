"""SEAVER: attention between two sentences and a condition, turned back onto each of them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["PADDING", "augment_states", "reweighting"]

PADDING = -1  # segment of tokens that belong to neither sentence nor condition


def reweighting(
    attention: Float[Tensor, "n h t t"],
    segments: Int[Tensor, "n t"],
    *,
    temperature: float | Float[Tensor, ""] = 1.0,
) -> Float[Tensor, "n h t t"]:
    """Weights within each segment by way of the other one: SEAVER, Eq. 2 and 3.

    With X the attention between different segments, ``softmax(X·X)`` over a token's own segment:
    a sentence token weighs the sentence tokens by what both have to do with the condition, and
    the other way round. Rows of padding keep themselves.

    Args:
        attention: weights of one layer, rows are queries.
        segments: 0 for the sentences, 1 for the condition, ``PADDING`` for padding.
        temperature: divides the products, which are small: at 1, the paper's value, no weight of
            a row is more than e times another.
    """
    real = segments != PADDING
    pairs = real[:, :, None] & real[:, None, :]
    same = pairs & (segments[:, :, None] == segments[:, None, :])
    crossing = attention * (pairs & ~same)[:, None].to(attention.dtype)
    identity = torch.eye(segments.shape[1], dtype=torch.bool, device=segments.device)
    allowed = same | (identity & ~real[:, :, None])
    products = crossing @ crossing / temperature
    return products.masked_fill(~allowed[:, None], -torch.inf).softmax(dim=-1)


def augment_states(
    states: Float[Tensor, "n t d"], weights: Float[Tensor, "n h t t"]
) -> Float[Tensor, "n t width"]:
    """Every head's reweighted states, side by side: ``width`` is heads times d (SEAVER, Eq. 4)."""
    return torch.einsum("nhqk,nkd->nqhd", weights, states).flatten(2)
