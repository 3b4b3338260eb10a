"""Heads that compare a vector of each sentence by cosine: bi-encoder and tri-encoder."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.functional import cosine_pairs
from tertium.functional.pooling import masked_mean
from tertium.functional.reallocation import condition_weights
from tertium.heads.cross import ConditionalHead, Learnable, seeded, segments_of
from tertium.heads.layout import ModelShape
from tertium.types import Encoded, HeadOutput

__all__ = ["BiHead", "TriHead"]

Scale = Literal["plain", "learned"]
VectorPooling = Literal["encoder", "sentence", "condition_tokens", "condition", "asked"]
_SPECIAL = 2  # tokens of an empty text: the first one and the separator


class _VectorHead(ConditionalHead):
    """From two vectors to their cosine, and from the cosine to a score.

    ``plain``: a cosine of 0 is the lowest label and 1 the highest. ``learned``: a linear function
    of the cosine, initially the same.
    """

    compares_vectors: ClassVar[bool] = True

    def __init__(self, settings: dict[str, Any], *, scale: Scale) -> None:
        super().__init__({**settings, "scale": scale})
        learned = scale == "learned"
        self.slope = nn.Parameter(torch.tensor(1.0)) if learned else None
        self.offset = nn.Parameter(torch.tensor(0.0)) if learned else None

    def compare(self, u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> HeadOutput:
        """Cosine and score."""
        cosine = cosine_pairs(u, v)
        if self.slope is None or self.offset is None:
            return HeadOutput(cosine, cosine)
        return HeadOutput(self.slope * cosine + self.offset, cosine)


class BiHead(_VectorHead):
    """The bi-encoder of C-STS (Deshpande et al., 2023): each sentence is read with the condition.

    Options beyond it: weight tokens by their attention to the condition, subtract the condition's
    own vector (CASE, 2025), and a projection that depends on the condition (after Hyper-CL, 2024,
    here of low rank and added to the vector).

    Args:
        shape: shape of the model.
        pooling: ``encoder`` uses the encoder's vector, ``sentence`` the mean of the sentence's
            tokens, ``condition_tokens`` (``asked`` in version 0.1) the mean of the condition's
            tokens, which have attended to the sentence, and ``condition`` the mean of the
            sentence's tokens weighted by their attention to the condition in the last layer.
        subtract: share of the condition's own vector to subtract, or ``learned``, starting from 0.
        projection: ``hyper`` adds ``U diag(g(c)) V u`` to a vector u under a condition c.
        rank: of that projection.
        scale: from cosine to score, ``plain`` or ``learned``.
        seed: of the initial weights.
    """

    kind: ClassVar[str] = "bi"

    def __init__(
        self,
        shape: ModelShape,
        *,
        pooling: VectorPooling = "encoder",
        subtract: Learnable = 0.0,
        projection: Literal["none", "hyper"] = "none",
        rank: int = 64,
        scale: Scale = "plain",
        seed: int = 0,
    ) -> None:
        if pooling == "asked":
            pooling = "condition_tokens"
        settings = {
            "pooling": pooling,
            "subtract": subtract,
            "projection": projection,
            "rank": rank,
        }
        super().__init__(settings, scale=scale)
        if rank < 1:
            raise TertiumError(f"rank must be at least 1, got {rank}.")
        self.pooling = pooling
        self.subtract = nn.Parameter(torch.tensor(0.0)) if subtract == "learned" else subtract
        width = shape.embedding if pooling == "encoder" else shape.dimension
        with seeded(seed):
            self.hyper = _Hyper(width, rank) if projection == "hyper" else None

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """Cosine of both sentences' vectors."""
        u, v = (self._vector(side) for side in sides[:2])
        if len(sides) > 2:
            condition, blank = self._vector(sides[2]), _blank(sides[2])
            u, v = (torch.where(blank, x, self._changed(x, condition)) for x in (u, v))
        return self.compare(u, v)

    def _vector(self, side: Encoded) -> Float[Tensor, "n d"]:
        if self.pooling == "encoder":
            return side.embedding
        segments = segments_of(side)
        if self.pooling == "condition":
            if side.attention is None:
                raise TertiumError("Pooling by the condition needs the last layer's attention.")
            weights = condition_weights(side.attention[-1], segments)
            return torch.einsum("nt,ntd->nd", weights, side.tokens)
        inside = segments == (1 if self.pooling == "condition_tokens" else 0)
        # A single text, or one without a condition, is its own first segment. (ONNX Runtime has no
        # ``where`` for booleans.)
        inside = inside | (~inside.any(dim=1, keepdim=True) & (segments == 0))
        return masked_mean(side.tokens, inside.long())

    def _changed(
        self, vector: Float[Tensor, "n d"], condition: Float[Tensor, "n d"]
    ) -> Float[Tensor, "n d"]:
        if self.hyper is not None:
            vector = self.hyper(vector, condition)
        return vector - self.subtract * condition


class TriHead(_VectorHead):
    """The tri-encoder of C-STS: sentences and condition are encoded separately, then combined.

    Args:
        shape: shape of the model.
        combine: ``hadamard`` multiplies each sentence's vector by the condition's, ``concat``
            concatenates both and maps them back to one.
        dropout: dropout before the linear maps.
        scale: from cosine to score, ``plain`` or ``learned``.
        seed: of the initial weights.
    """

    kind: ClassVar[str] = "tri"

    def __init__(
        self,
        shape: ModelShape,
        *,
        combine: Literal["hadamard", "concat"] = "hadamard",
        dropout: float = 0.1,
        scale: Scale = "plain",
        seed: int = 0,
    ) -> None:
        super().__init__({"combine": combine, "dropout": dropout}, scale=scale)
        width = shape.embedding
        with seeded(seed):
            self.condition = nn.Sequential(nn.Dropout(dropout), nn.Linear(width, width))
            self.concat = (
                nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * width, width), shape.activate())
                if combine == "concat"
                else None
            )

    def forward(self, sides: Sequence[Encoded]) -> HeadOutput:
        """Cosine of both sentences' vectors, each combined with the condition's."""
        first, second, asked = sides
        condition, blank = self.condition(asked.embedding), _blank(asked)
        u, v = (
            torch.where(blank, x, self._combined(x, condition))
            for x in (first.embedding, second.embedding)
        )
        return self.compare(u, v)

    def _combined(
        self, vector: Float[Tensor, "n d"], condition: Float[Tensor, "n d"]
    ) -> Float[Tensor, "n d"]:
        if self.concat is None:
            return vector * condition
        combined: Tensor = self.concat(torch.cat([vector, condition], dim=1))
        return combined


class _Hyper(nn.Module):
    """``u + U diag(g(c)) V u``; U starts at 0, so that it is initially the identity."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.gate = nn.Linear(width, rank)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(
        self, vector: Float[Tensor, "n d"], condition: Float[Tensor, "n d"]
    ) -> Float[Tensor, "n d"]:
        """The projected vector."""
        change: Tensor = self.up(self.gate(condition) * self.down(vector))
        return vector + change


def _blank(side: Encoded) -> Bool[Tensor, "n 1"]:
    """Rows with an empty text: without a condition the sentences are compared as they are."""
    return (side.mask.sum(dim=1) <= _SPECIAL)[:, None]
