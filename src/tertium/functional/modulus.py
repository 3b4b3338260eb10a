"""JTCSE's tensor-modulus constraint, and the share of a layer's energy in CLS."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tertium.functional.similarity import cosine_pairs

__all__ = ["cls_energy", "modulus_constraint", "tensor_modulus"]

_SMALLEST_COSINE = 1e-4


def tensor_modulus(
    first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """``‖h - h⁺‖ / (‖h‖ + ‖h⁺‖)``: 0 for equal vectors, 1 for opposite ones (JTCSE)."""
    total = first.norm(dim=1) + second.norm(dim=1)
    ratio: Tensor = (first - second).norm(dim=1) / total.clamp(min=torch.finfo(first.dtype).tiny)
    return ratio


def modulus_constraint(
    pooled_first: Float[Tensor, "n d"],
    pooled_second: Float[Tensor, "n d"],
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    *,
    floor: Literal["small", "negative"] = "small",
    modulus_scale: float = 1.0,
) -> Float[Tensor, " n"]:
    """Modulus ratio of the poolers times ``-log cos`` of the CLS states: JTCSE, Eq. 13.

    Args:
        pooled_first: pooler outputs of one tower's view.
        pooled_second: pooler outputs of the other tower's other view.
        first: last CLS states belonging to the first.
        second: last CLS states belonging to the second.
        floor: which cosines are replaced by the constant 1e-4, which stops the gradient to the CLS
            states: all ``small`` ones, or only ``negative`` ones as in the authors' code, where a
            cosine of exactly 0 gives infinity.
        modulus_scale: factor of the ratio; the authors' code uses 0.5.
    """
    cosines = cosine_pairs(first, second)
    low = cosines < (0.0 if floor == "negative" else _SMALLEST_COSINE)
    safe = torch.where(low, torch.full_like(cosines, _SMALLEST_COSINE), cosines)
    return modulus_scale * tensor_modulus(pooled_first, pooled_second) * -safe.log()


def cls_energy(context: Float[Tensor, "n t d"], mask: Int[Tensor, "n t"]) -> Float[Tensor, " n"]:
    """Norm of the first token's context relative to all other real tokens: JTCSE, Eq. 6.

    Args:
        context: attention times values, heads joined.
        mask: 1 for real tokens.
    """
    norms = context.norm(dim=2).square() * mask.to(context.dtype)
    rest = (norms.sum(dim=1) - norms[:, 0]).clamp(min=torch.finfo(context.dtype).tiny)
    energy: Tensor = (norms[:, 0] / rest).sqrt()
    return energy
