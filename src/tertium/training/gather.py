"""Embeddings of all processes, so that each example meets every negative."""

from dataclasses import replace

import torch
from torch import Tensor, distributed

from tertium.types import Encoded, Towers, ViewPair

__all__ = ["gather_views"]


def gather_views(views: ViewPair) -> ViewPair:
    """The embeddings of all processes, in the order of their ranks; gradients flow back.

    Every process then computes the same loss of the joined batch. Its gradient reaches a
    process once from each of them, and data-parallel training divides by their number, so that
    the result is that of one process with the whole batch. Token states and attention stay
    those of this process.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return views
    return replace(
        views,
        first=_gather(views.first),
        second=_gather(views.second),
        negatives=None if views.negatives is None else _gather(views.negatives),
        towers=None if views.towers is None else _gather_towers(views.towers),
    )


def _gather(encoded: Encoded) -> Encoded:
    return replace(encoded, embedding=_joined(encoded.embedding, dim=0))


def _gather_towers(towers: Towers) -> Towers:
    """What is contrasted; pooled states meet those of the same sentence only."""
    return replace(
        towers,
        cls=_joined(towers.cls, dim=2),
        pooled=None,
        crossed=None if towers.crossed is None else _joined(towers.crossed, dim=2),
    )


def _joined(tensor: Tensor, *, dim: int) -> Tensor:
    from torch.distributed.nn.functional import all_gather

    parts: tuple[Tensor, ...] = all_gather(tensor.contiguous())  # type: ignore[no-untyped-call]
    return torch.cat(list(parts), dim=dim)
