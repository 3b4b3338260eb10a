"""A shallower encoder: some layers of a deeper one, to be taught by it."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from tertium.errors import TertiumError
from tertium.models.cross_attention import encoder_layers
from tertium.models.encoder import Encoder

__all__ = ["keep_layers", "spread"]


def spread(depth: int, count: int) -> tuple[int, ...]:
    """``count`` of ``depth`` layers, counted from 1, at even distances up to the last.

    >>> spread(12, 4), spread(6, 4)
    ((3, 6, 9, 12), (2, 3, 5, 6))
    """
    if not 1 <= count <= depth:
        raise TertiumError(f"{count} of {depth} layers cannot be kept: choose from 1 to {depth}.")
    return tuple(-(-at * depth // count) for at in range(1, count + 1))


def keep_layers(encoder: Encoder, layers: Sequence[int]) -> Encoder:
    """A copy of ``encoder`` with these layers alone.

    Args:
        encoder: with a BERT- or RoBERTa-like backbone.
        layers: those to keep, counted from 1, ascending.
    """
    depth = len(encoder_layers(encoder.backbone))
    if (
        not layers
        or list(layers) != sorted(set(layers))
        or not 1 <= layers[0] <= layers[-1] <= depth
    ):
        raise TertiumError(
            f"layers {list(layers)} cannot be kept: name some from 1 to {depth}, in order."
        )
    short = encoder.copy()
    kept = [encoder_layers(short.backbone)[at - 1] for at in layers]
    for at, layer in enumerate(kept):
        layer.attention.self.layer_idx = at
    backbone: Any = short.backbone
    backbone.encoder.layer = nn.ModuleList(kept)
    backbone.config.num_hidden_layers = len(kept)
    return short
