"""SEAVER: reweights tokens by the attention between the sentences and the condition."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["PADDING", "augment_states", "condition_weights", "displaced_condition", "reweighting"]

PADDING = -1  # segment of tokens that belong to neither sentence nor condition


def reweighting(
    attention: Float[Tensor, "n h t t"],
    segments: Int[Tensor, "n t"],
    *,
    temperature: float | Float[Tensor, ""] = 1.0,
) -> Float[Tensor, "n h t t"]:
    """Weights within each segment by way of the other one: SEAVER, Eq. 1 and 2.

    With X the attention between different segments, ``softmax(X·X)`` over a token's own segment: a
    sentence token weights the sentence tokens by what both have to do with the condition, and vice
    versa. Rows of padding keep themselves.

    Args:
        attention: weights of one layer, rows are queries.
        segments: 0 for the sentences, 1 for the condition, ``PADDING`` for padding.
        temperature: divides the products, which are small: at 1, the paper's value, the largest
            weight of a row is at most e times the smallest.
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
    """Each head's reweighted states, concatenated, ``width`` = heads · d: SEAVER, Eq. 3 and 4."""
    return torch.einsum("nhqk,nkd->nqhd", weights, states).flatten(2)


def displaced_condition(
    segments: Int[Tensor, "n t"], place: Float[Tensor, " n"]
) -> Int[Tensor, "n t"]:
    """Segments in which other tokens stand in for the condition: SEAVER's Rand-Aug, section 4.3.

    A run of tokens as long as the condition is called the condition, all others the sentences. The
    attention between both is then a pair of sub-matrices that do not overlap, mirrored at the
    diagonal, of the real size but elsewhere. The paper does not say how it draws them.

    Args:
        segments: 0 for the sentences, 1 for the condition, ``PADDING`` for padding.
        place: where the run starts, from 0 (at the first token) to just below 1 (as late as
            possible).
    """
    real = segments != PADDING
    wide = (segments == 1).sum(dim=1)
    start = (place * (real.sum(dim=1) - wide + 1)).long()
    places = torch.arange(segments.shape[1], device=segments.device)
    inside = (places >= start[:, None]) & (places < (start + wide)[:, None])
    return inside.long().masked_fill(~real, PADDING)


def condition_weights(
    attention: Float[Tensor, "n h t t"], segments: Int[Tensor, "n t"]
) -> Float[Tensor, "n t"]:
    """How much each token of the sentence attends to the condition; a row sums to 1.

    The attention to the condition's tokens, averaged over heads and normalised over the sentence.
    Without a condition all tokens have the same weight.
    """
    sentence = (segments == 0).to(attention.dtype)
    towards = (attention.mean(dim=1) * (segments == 1)[:, None].to(attention.dtype)).sum(dim=-1)
    weights = torch.where((segments == 1).any(dim=1, keepdim=True), towards, 1.0) * sentence
    return weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-9)
