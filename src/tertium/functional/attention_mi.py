"""Mutual information between the attention of two views: miCSE (Klein & Nabi, 2023)."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

__all__ = [
    "MutualInformation",
    "Positions",
    "attention_layers",
    "attention_slices",
    "mutual_information",
    "sample_positions",
    "valid_positions",
]

_SMALLEST_VARIANCE = 1e-12
_SMALLEST_REST = 1e-6  # of 1 - rho²: keeps the information of identical views finite
_LEAST_SAMPLES = 8


def attention_layers(depth: int) -> range:
    """The upper layers whose attention is compared: 7 to 10 of 12, counted from 0.

    The authors' code slices 7:11, where the paper says between 8 and 12; other depths scale.
    """
    count = min(max(2, 2 * (depth // 6)), depth)
    start = min(7 * depth // 12, depth - count)
    return range(start, start + count)


def attention_slices(
    attention: Float[Tensor, "l n h t t"], *, pool: Literal["heads", "layers"] = "heads"
) -> Float[Tensor, "n r e"]:
    """Flatten each sentence's attention maps into the slices that are compared.

    Args:
        attention: weights of the compared layers.
        pool: ``heads`` joins two adjacent heads of a layer (the paper; an odd last head stays on
            its own), ``layers`` joins every second layer of a head (the authors' code).
    """
    layers, n, heads, t, _ = attention.shape
    if pool == "heads":
        even = pad(attention, (0, 0, 0, 0, 0, heads % 2))  # zeros are never valid positions
        pairs = even.reshape(layers, n, -1, 2, t, t)
        return pairs.permute(1, 0, 2, 3, 4, 5).reshape(n, -1, 2 * t * t)
    even = pad(attention, (0, 0, 0, 0, 0, 0, 0, 0, 0, layers % 2))
    parts = even.reshape(-1, 2, n, heads, t, t)
    return parts.permute(2, 3, 1, 0, 4, 5).reshape(n, 2 * heads, -1)


def valid_positions(
    first: Float[Tensor, "n r e"],
    second: Float[Tensor, "n r e"],
    mask: Int[Tensor, "n t"],
    *,
    count_padding_queries: bool = False,
) -> Bool[Tensor, "n r e"]:
    """Where both views have a weight, at real queries and real keys.

    Args:
        first: slices of one view.
        second: slices of the other.
        mask: 1 for tokens that are real in both.
        count_padding_queries: include rows of padding, as the authors' code does.
    """
    positive = (first > 0) & (second > 0)
    if count_padding_queries:
        return positive
    real = mask.bool()
    square = (real[:, :, None] & real[:, None, :]).flatten(1)
    return positive & square.repeat(1, first.shape[2] // square.shape[1])[:, None]


@dataclass(frozen=True)
class Positions:
    """Sampled positions of every slice.

    Attributes:
        indices: positions within a slice.
        used: whether a position counts; False for the surplus where a slice has too few.
    """

    indices: Int[Tensor, "n r m"]
    used: Bool[Tensor, "n r m"]


def sample_positions(
    valid: Bool[Tensor, "n r e"],
    *,
    samples: int = 150,
    short_slices: Literal["use", "discard"] = "use",
    generator: torch.Generator | None = None,
) -> Positions:
    """Draw positions of each slice without replacement, uniformly among the valid ones.

    Args:
        valid: where a slice may be sampled.
        samples: how many per slice.
        short_slices: how to treat slices with fewer valid positions. ``use`` takes all of them if
            there are at least 8; ``discard`` (the authors' code) drops such slices if any slice has
            enough, and otherwise takes the smallest count from every slice.
        generator: random generator.
    """
    counts = valid.sum(dim=2, keepdim=True)
    noise = torch.rand(valid.shape, generator=generator, device=valid.device)
    size = min(samples, valid.shape[2])
    indices = noise.masked_fill_(~valid, -1.0).topk(size, dim=2).indices
    place = torch.arange(size, device=valid.device)
    if short_slices == "use":
        used = (place < counts) & (counts >= _LEAST_SAMPLES)
    elif bool((counts >= samples).any()):
        used = (place < samples) & (counts >= samples)
    else:
        used = (place < counts.min()).expand_as(indices)
    return Positions(indices, used)


@dataclass(frozen=True)
class MutualInformation:
    """Mutual information of two views, per slice.

    Attributes:
        correlation: correlation of the logarithms.
        information: ``-½ log(1 - ρ²)``.
        kept: which slices count.
    """

    correlation: Float[Tensor, "n r"]
    information: Float[Tensor, "n r"]
    kept: Bool[Tensor, "n r"]


def mutual_information(
    first: Float[Tensor, "n r e"], second: Float[Tensor, "n r e"], positions: Positions
) -> MutualInformation:
    """Mutual information of two log-normal variables at the sampled positions: miCSE, Eq. 4.

    The paper's Algorithm 1 and Eq. 11 omit the logarithm by mistake. ``1 - ρ²`` is clamped to at
    least 1e-6, so that identical views have a finite value and no gradient. Weights in half
    precision are compared in float32: rounded to 8 bits, 1 - ρ² would often be 0.
    """
    if first.dtype in (torch.bfloat16, torch.float16):
        first, second = first.float(), second.float()
    used = positions.used.to(first.dtype)
    count = used.sum(dim=2, keepdim=True).clamp(min=1)

    def centred(slices: Tensor) -> Tensor:
        values = slices.gather(2, positions.indices)
        logs = torch.where(positions.used, values, 1.0).log()
        return (logs - logs.sum(dim=2, keepdim=True) / count) * used

    x, y = centred(first), centred(second)
    spread = (x.square().sum(dim=2) * y.square().sum(dim=2)).clamp(min=_SMALLEST_VARIANCE).sqrt()
    correlation = (x * y).sum(dim=2) / spread
    information = -0.5 * (1 - correlation.square()).clamp(min=_SMALLEST_REST).log()
    return MutualInformation(correlation, information, positions.used.any(dim=2))
