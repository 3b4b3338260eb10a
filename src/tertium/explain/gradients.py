"""Which tokens made the score: integrated gradients, by captum."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tertium.errors import require

__all__ = ["Attributed", "Table", "integrate_gradients"]

# Ids and mask of one item's sequences, repeated, to one score per repetition.
Forward = Callable[[Int[Tensor, "rows t"], Int[Tensor, "rows t"]], Float[Tensor, " n"]]
_TOKENS = 8192  # of one pass


@dataclass(frozen=True)
class Table:
    """An embedding table, and the sequences of an item that are looked up in it."""

    module: nn.Module
    rows: slice


@dataclass(frozen=True)
class Attributed:
    """What each token contributes, by integrated gradients.

    Attributes:
        values: one per token of each sequence; they sum to the difference of the two scores.
        score: of the item.
        baseline: score where every word is replaced by a token that says nothing.
    """

    values: Float[Tensor, "s t"]
    score: float
    baseline: float


def integrate_gradients(
    forward: Forward,
    tables: Sequence[Table],
    ids: Int[Tensor, "s t"],
    mask: Int[Tensor, "s t"],
    *,
    baseline: Int[Tensor, "s t"],
    steps: int,
) -> Attributed:
    """Sundararajan et al. (2017), on the path from one item's word vectors to another's.

    Args:
        forward: ids and mask of n repetitions of the item, one after another, to n scores.
        tables: where ids are looked up: one table, or one for each tower or member of a model.
        ids: the item's sequences, padded to the same length.
        mask: 1 for real tokens.
        baseline: ids of the item that says nothing.
        steps: points on the path; the error falls with their number.
    """
    require("explain", purpose="Explaining by integrated gradients", packages=("captum",))
    from captum.attr import LayerIntegratedGradients

    width = ids.shape[1]

    def score(items: Tensor, masks: Tensor) -> Tensor:
        return forward(items.reshape(-1, width), masks.reshape(-1, width))

    with warnings.catch_warnings():  # tables do not depend on one another, of which captum warns
        warnings.filterwarnings("ignore", message="Multiple layers provided")
        attribution: Any = LayerIntegratedGradients(score, [table.module for table in tables])
    found = attribution.attribute(
        ids[None],
        baselines=baseline[None],
        additional_forward_args=(mask[None],),
        n_steps=steps,
        internal_batch_size=max(len(ids), _TOKENS // width),
        method="gausslegendre",
    )
    values = torch.zeros(ids.shape)
    for table, part in zip(tables, found, strict=True):
        values[table.rows] += part.detach().float().sum(dim=-1).cpu()
    with torch.inference_mode():
        whole, empty = (float(score(item[None], mask[None])) for item in (ids, baseline))
    return Attributed(values, whole, empty)
