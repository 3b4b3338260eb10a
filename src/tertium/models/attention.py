"""Attention maps of chosen layers, while every other layer stays on the fused kernel."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from tertium.errors import TertiumError
from tertium.models.twin import TwinModel

__all__ = ["attention_maps", "capture_attention"]

_NAME = "tertium_capture"
_captured: ContextVar[dict[int, Tensor] | None] = ContextVar("captured", default=None)
_wanted: ContextVar[frozenset[int]] = ContextVar("wanted", default=frozenset())
_maps_alone: ContextVar[bool] = ContextVar("maps_alone", default=False)


class _Enough(Exception):
    """All wanted maps are captured, so the rest of the pass is not needed."""


@contextlib.contextmanager
def capture_attention(
    backbone: PreTrainedModel, layers: Sequence[int]
) -> Iterator[dict[int, Tensor]]:
    """Record the attention weights ``[n, h, t, t]`` of ``layers`` (from 0) in forward passes.

    The weights are those before dropout; rows of real tokens sum to 1, and padding gets exactly 0.
    Each forward pass inside the block fills the dictionary.
    """
    if isinstance(backbone, TwinModel):
        raise TertiumError("A twin has the attention of two towers: ask one of them.")
    depth = int(backbone.config.num_hidden_layers)
    wanted = frozenset(layer % depth for layer in layers if -depth <= layer < depth)
    if len(wanted) != len(set(layers)):
        raise TertiumError(
            f"layers {sorted(layers)} are not all among the {depth} layers 0..{depth - 1}."
        )
    before = backbone.config._attn_implementation
    captured: dict[int, Tensor] = {}
    tokens = (_captured.set(captured), _wanted.set(wanted))
    hooks = _mpnet_hooks(backbone, wanted, captured)
    if not hooks:
        backbone.set_attn_implementation(_NAME)
    try:
        yield captured
    finally:
        for hook in hooks:
            hook.remove()
        if not hooks:
            backbone.set_attn_implementation(before)
        _captured.reset(tokens[0])
        _wanted.reset(tokens[1])


def _mpnet_hooks(
    backbone: PreTrainedModel, wanted: frozenset[int], captured: dict[int, Tensor]
) -> list[RemovableHandle]:
    """MPNet computes attention itself, so its weights are taken from the input of its dropout."""

    def keep(layer: int) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        return lambda module, given: captured.__setitem__(layer, given[0])

    found = [module for module in backbone.modules() if isinstance(module, MPNetSelfAttention)]
    return [
        module.dropout.register_forward_pre_hook(keep(layer))
        for layer, module in enumerate(found)
        if layer in wanted
    ]


def attention_maps(backbone: PreTrainedModel, features: Mapping[str, Tensor]) -> Tensor:
    """Attention weights ``[l, n, h, t, t]`` of all layers.

    The pass stops at the last layer's weights, before its values and feed-forward part.
    """
    layers = range(int(backbone.config.num_hidden_layers))
    alone = _maps_alone.set(True)
    try:
        with capture_attention(backbone, layers) as captured, contextlib.suppress(_Enough):
            backbone(**features)
    finally:
        _maps_alone.reset(alone)
    if len(captured) < len(layers):
        raise TertiumError(f"{type(backbone).__name__} does not let its attention be read.")
    return torch.stack([captured[layer] for layer in layers])


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The fused kernel or, for a wanted layer, the same in plain steps to record its weights."""
    captured = _captured.get()
    layer = getattr(module, "layer_idx", None)
    if captured is None or layer not in _wanted.get():
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return output
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ key.transpose(2, 3) * scale
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:
        scores = scores + attention_mask
    weights = scores.softmax(dim=-1)
    captured[layer] = weights
    if _maps_alone.get() and len(captured) == len(_wanted.get()):
        raise _Enough
    dropped = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (dropped @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(_NAME, _attention)
# Without its own mask function the padding mask would silently be dropped.
AttentionMaskInterface.register(_NAME, sdpa_mask)
