"""miCSE's attention term: two views of a sentence should have similar attention."""

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
    """Negative mutual information of two views' attention: miCSE, Klein & Nabi, 2023, Eq. 5.

    Args:
        layers: the layers to compare, as a slice such as ``7:11``, counted from 0; the default is
            that of the authors' code for 12 layers, scaled with the depth. The paper's text,
            "between 8 and 12", is ``8:12`` of 12.
        samples: positions drawn per slice.
        pool: ``heads`` joins adjacent heads (the paper), ``layers`` every second layer (the
            authors' code).
        short_slices: ``use`` takes whatever a slice has, if at least 8 positions; ``discard`` drops
            such slices, as the authors' code does.
        scale: ``valid_ratio`` multiplies by the squared share of valid positions, as the authors'
            code does.
        count_padding_queries: include rows of padding, as the authors' code does.
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
        """The configured layers, or by default the upper ones."""
        if self.layers is None:
            return attention_layers(depth)
        if self.layers.stop > depth:
            raise TertiumError(
                f"attention_mi compares layers {self.layers.start}:{self.layers.stop}, but the "
                f"model has only {depth}, counted from 0."
            )
        return self.layers

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``attention_mi``, one value per slice that counts."""
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
                "No sentence in a batch is long enough to compare attention: the term is 0.",
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
        raise TertiumError(f"layers must be a slice such as 7:11, got '{text}'.")
    return range(int(start), int(end))


def _compared(
    views: ViewPair,
) -> tuple[Float[Tensor, "l n h t t"], Float[Tensor, "l n h t t"], Int[Tensor, "n t"]]:
    """Both views' attention token by token, and the mask of the tokens they share."""
    first, second = views.first, views.second
    if first.attention is None or second.attention is None:
        raise TertiumError("attention_mi needs the attention of both views.")
    stride = len(second.mask) // len(first.mask)  # contrastive tension has fewer anchors
    other, mask = second.attention[:, ::stride], second.mask[::stride]
    if views.sources is None:
        return first.attention, other, first.mask * mask
    sources = views.sources[::stride]
    return aligned_attention(first.attention, sources, mask), other, mask


def aligned_attention(
    attention: Float[Tensor, "l n h s s"], sources: Int[Tensor, "n t"], mask: Int[Tensor, "n t"]
) -> Float[Tensor, "l n h t t"]:
    """A view's attention among the tokens that the other view kept, in the other view's order.

    Rows are renormalised over those tokens, since the shorter view cannot attend to the rest.

    Args:
        attention: attention of the view with all tokens.
        sources: position of each token of the other view in this one.
        mask: mask of the other view.
    """
    layers, n, heads, _, width = attention.shape
    t = sources.shape[1]
    queries = sources[None, :, None, :, None].expand(layers, n, heads, t, width)
    keys = sources[None, :, None, None, :].expand(layers, n, heads, t, t)
    kept = attention.gather(3, queries).gather(4, keys)
    kept = kept * mask[None, :, None, None, :].to(kept.dtype)
    return kept / kept.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)
