"""Attention received by single tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["attention_rollout", "received_attention"]


def received_attention(
    attention: Float[Tensor, "l n h t t"],
    mask: Int[Tensor, "n t"],
    *,
    last_layer_only: bool = False,
    count_padding_queries: bool = False,
) -> Float[Tensor, "n t"]:
    """Attention that each token receives over layers, heads and queries: ADD, "naive".

    Args:
        attention: weights, rows are queries.
        mask: 1 for real tokens; padding scores infinity.
        last_layer_only: look only at the last layer.
        count_padding_queries: include queries at padding, as the authors' code does; scores then
            depend on the padding of the batch.
    """
    layers = attention[-1:] if last_layer_only else attention
    per_query = layers.sum(dim=(0, 2))
    return _received(per_query, mask, count_padding_queries=count_padding_queries)


def attention_rollout(
    attention: Float[Tensor, "l n h t t"],
    mask: Int[Tensor, "n t"],
    *,
    last_layer_only: bool = False,
    count_padding_queries: bool = False,
) -> Float[Tensor, "n t"]:
    """Attention that each token receives through all layers below: ADD, "rollout".

    Attention rollout (Abnar & Zuidema, 2020): the mean over heads plus identity, rows
    renormalised, multiplied up from the first layer; the products of all layers are added up, or
    only the last one with ``last_layer_only``. Other arguments as :func:`received_attention`.
    """
    identity = torch.eye(attention.shape[-1], dtype=attention.dtype, device=attention.device)
    residual = attention.mean(dim=2) + identity
    residual = residual / residual.sum(dim=-1, keepdim=True)
    joint = residual[0]
    total = joint
    for layer in residual[1:]:
        joint = layer @ joint
        total = joint if last_layer_only else total + joint
    return _received(total, mask, count_padding_queries=count_padding_queries)


def _received(
    per_query: Float[Tensor, "n t t"], mask: Int[Tensor, "n t"], *, count_padding_queries: bool
) -> Float[Tensor, "n t"]:
    real = mask.bool()
    if not count_padding_queries:
        per_query = per_query.masked_fill(~real[:, :, None], 0.0)
    return per_query.sum(dim=1).masked_fill(~real, torch.inf)
