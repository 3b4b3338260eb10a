"""Which tokens made the score: integrated gradients, by captum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tertium.errors import require

__all__ = ["Attributed", "integrate_gradients"]

# Ids and mask of one item's sequences, repeated, to one score per repetition.
Forward = Callable[[Int[Tensor, "rows t"], Int[Tensor, "rows t"]], Float[Tensor, " n"]]


@dataclass(frozen=True)
class Attributed:
    """What each token contributes, by integrated gradients.

    Attributes:
        values: one per token of each sequence; they sum to the difference of the two scores.
        score: of the item.
        baseline: score where every word is replaced by a token that says nothing.
        error: by how much the sum misses the difference, relative to it.
    """

    values: Float[Tensor, "s t"]
    score: float
    baseline: float
    error: float


def integrate_gradients(
    forward: Forward,
    layers: Sequence[nn.Module],
    ids: Int[Tensor, "s t"],
    mask: Int[Tensor, "s t"],
    *,
    baseline: Int[Tensor, "s t"],
    steps: int = 64,
) -> Attributed:
    """Sundararajan et al. (2017), on the path from one sequence's word vectors to another's.

    Args:
        forward: ids and mask of n repetitions of the item, one after another, to n scores.
        layers: the embedding tables that are looked up, one, or one per tower.
        ids: the item's sequences, padded to the same length.
        mask: 1 for real tokens.
        baseline: ids of the item that says nothing.
        steps: points on the path; the error falls with their number.
    """
    require("explain", purpose="Integrated gradients", packages=("captum",))
    from captum.attr import LayerIntegratedGradients

    sequences, width = ids.shape

    def score(items: Tensor, masks: Tensor) -> Tensor:
        return forward(items.reshape(-1, width), masks.reshape(-1, width))

    attribution: Any = LayerIntegratedGradients(score, list(layers))
    found = attribution.attribute(
        ids[None],
        baselines=baseline[None],
        additional_forward_args=(mask[None],),
        n_steps=steps,
        internal_batch_size=steps,
        method="gausslegendre",
    )
    tables = found if isinstance(found, list | tuple) else [found]
    values = torch.stack([table.reshape(sequences, width, -1).sum(dim=-1) for table in tables])
    total = values.sum(dim=0).detach()
    with torch.inference_mode():
        whole, empty = (float(score(item[None], mask[None])) for item in (ids, baseline))
    change = whole - empty
    error = abs(float(total.sum()) - change) / max(abs(change), 1e-6)
    return Attributed(total, whole, empty, error)
