"""Embeddings of all processes, so that each example meets every negative."""

from dataclasses import replace

import torch
from torch import Tensor, distributed

from tertium.types import Encoded, ViewPair

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
    )


def _gather(encoded: Encoded) -> Encoded:
    from torch.distributed.nn.functional import all_gather

    parts: tuple[Tensor, ...] = all_gather(encoded.embedding.contiguous())  # type: ignore[no-untyped-call]
    return replace(encoded, embedding=torch.cat(list(parts)))
