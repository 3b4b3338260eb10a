"""miCSE's attention term: two views of a sentence should attend alike."""

import warnings
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tertium.errors import TertiumError, TertiumWarning
from tertium.functional.attention_mi import (
    attention_layers,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tertium.objectives.base import Objective
from tertium.types import DataKind, Term, ViewPair

__all__ = ["AttentionMI", "aligned_attention"]


class AttentionMI(Objective):
    """Minus the mutual information of two views' attention: miCSE, Klein & Nabi, 2023, Eq. 5.

    Args:
        layers: whose attention is compared, as ``7:11``, counted from 0 without the end; by default
            the authors' code's, which are those for 12 layers and scale with the depth. The paper's
            text, "between 8 and 12", is ``8:12`` of 12.
        samples: positions drawn per slice.
        pool: ``heads`` joins adjacent heads (the paper), ``layers`` every second layer (the
            authors' code).
        short_slices: ``use`` takes what a slice has, from 8 positions on; ``discard`` as the
            authors' code.
        scale: ``valid_ratio`` multiplies by the squared share of valid positions, as the authors'
            code does.
        count_padding_queries: let rows of padding count, as the authors' code does.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"texts"})
    pairs_rows: ClassVar[bool] = False

    def __init__(
        self,
        *,
        layers: str | None = None,
        samples: int = 150,
        pool: Literal["heads", "layers"] = "heads",
        short_slices: Literal["use", "discard"] = "use",
        scale: Literal["none", "valid_ratio"] = "none",
        count_padding_queries: bool = False,
    ) -> None:
        super().__init__()
        if samples < 2:
            raise TertiumError(f"samples must be at least 2, got {samples}.")
        self.layers = None if layers is None else _layer_range(layers)
        self.samples = samples
        self.pool = pool
        self.short_slices = short_slices
        self.scale = scale
        self.counts_padding = count_padding_queries

    def attention_layers(self, depth: int) -> range:
        """Those that are named, or the upper ones."""
        if self.layers is None:
            return attention_layers(depth)
        if self.layers.stop > depth:
            raise TertiumError(
                f"attention_mi compares layers {self.layers.start}:{self.layers.stop}, and the "
                f"model has {depth}, counted from 0."
            )
        return self.layers

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The one term ``attention_mi``, a value per slice that counts."""
        first, second, mask = _compared(views)
        slices = attention_slices(first, pool=self.pool), attention_slices(second, pool=self.pool)
        with torch.no_grad():
            valid = valid_positions(*slices, mask, count_padding_queries=self.counts_padding)
            positions = sample_positions(
                valid, samples=self.samples, short_slices=self.short_slices
            )
        found = mutual_information(*slices, positions)
        if not found.kept.any():
            warnings.warn(
                "No sentence of a batch is long enough to compare attention: the term is 0.",
                TertiumWarning,
                stacklevel=2,
            )
            return {"attention_mi": Term(0.0 * found.information.flatten())}
        values = -found.information[found.kept]
        if self.scale == "valid_ratio":
            share = valid[found.kept].to(values.dtype).mean()
            values = values * (share.square() + 1e-6)
        return {"attention_mi": Term(values)}


def _layer_range(text: str) -> range:
    start, _, end = text.partition(":")
    if not (start.isdigit() and end.isdigit() and int(start) < int(end)):
        raise TertiumError(f"layers must be written as 7:11, first and end, got '{text}'.")
    return range(int(start), int(end))


def _compared(
    views: ViewPair,
) -> tuple[Float[Tensor, "l n h t t"], Float[Tensor, "l n h t t"], Int[Tensor, "n t"]]:
    """Both views' attention token by token, and the tokens that both have."""
    first, second = views.first, views.second
    if first.attention is None or second.attention is None:
        raise TertiumError("attention_mi needs the attention of both views.")
    stride = len(second.mask) // len(first.mask)  # contrastive tension reads fewer anchors
    other, mask = second.attention[:, ::stride], second.mask[::stride]
    if views.sources is None:
        return first.attention, other, first.mask * mask
    sources = views.sources[::stride]
    return aligned_attention(first.attention, sources, mask), other, mask


def aligned_attention(
    attention: Float[Tensor, "l n h s s"], sources: Int[Tensor, "n t"], mask: Int[Tensor, "n t"]
) -> Float[Tensor, "l n h t t"]:
    """A view's attention among the tokens that the other view kept, in the other's order.

    Rows are renormalised over those tokens: in the shorter view no token attends to what is gone.

    Args:
        attention: of the view that has all tokens.
        sources: where each token of the other view stands in this one.
        mask: of the other view.
    """
    layers, n, heads, _, width = attention.shape
    t = sources.shape[1]
    queries = sources[None, :, None, :, None].expand(layers, n, heads, t, width)
    keys = sources[None, :, None, None, :].expand(layers, n, heads, t, t)
    kept = attention.gather(3, queries).gather(4, keys)
    kept = kept * mask[None, :, None, None, :].to(kept.dtype)
    return kept / kept.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)
