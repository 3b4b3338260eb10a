"""Heads on embeddings: scores of pairs, and projections used only in training."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tertium.functional import cosine_pairs
from tertium.heads.layout import FEATURES, check_features

__all__ = ["CosineHead", "PairHead", "Projection", "SiameseHead", "WidthProjection"]


class PairHead(nn.Module, ABC):
    """From two embeddings to one score, or to one score per class."""

    @abstractmethod
    def forward(self, u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Scores; ``k`` is 1 for regression."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Arguments that build this head again, ``kind`` included."""


class SiameseHead(PairHead):
    """``Linear([u, v, |u - v|])``: STS-Regression, section 3; with k outputs, SBERT's classifier.

    Args:
        dimension: width of an embedding.
        features: which of ``u``, ``v`` and ``|u-v|`` it uses; the ablations leave some out.
        outputs: 1 for regression, the number of classes for classification.
        seed: of the initial weights.
    """

    def __init__(
        self,
        *,
        dimension: int,
        features: tuple[str, ...] = ("u", "v", "|u-v|"),
        outputs: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_features(features)
        self.features = tuple(features)
        self.dense = nn.Linear(dimension * len(features), outputs)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.dense.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.dense.bias)

    def forward(self, u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """A linear map of the chosen features."""
        joined = torch.cat([FEATURES[name](u, v) for name in self.features], dim=1)
        scores: Tensor = self.dense(joined)
        return scores

    def config(self) -> dict[str, Any]:
        """``kind``, ``features`` and ``outputs``."""
        outputs = self.dense.out_features
        return {"kind": "siamese", "features": list(self.features), "outputs": outputs}


class CosineHead(PairHead):
    """``a · cos(u, v) + b`` with learned a and b, so that the score is tied to the cosine.

    Not in the paper, whose head lets the cosine drift away from the score.

    Args:
        dimension: width of an embedding; unused, accepted for consistency with other heads.
        low: initial score of cosine 0.
        high: initial score of cosine 1.
    """

    def __init__(self, *, dimension: int = 0, low: float = 0.0, high: float = 1.0) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(high - low))
        self.offset = nn.Parameter(torch.tensor(low))

    def forward(self, u: Float[Tensor, "n d"], v: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The scaled cosine, as a column."""
        return (self.slope * cosine_pairs(u, v) + self.offset).unsqueeze(1)

    def config(self) -> dict[str, Any]:
        """Only ``kind``: slope and offset are weights."""
        return {"kind": "cosine"}


class Projection(nn.Module):
    """``tanh(Linear(d, d))``: SimCSE's MLP head, for training only.

    Args:
        dimension: width of an embedding.
        seed: of the initial weights.
        spread: their standard deviation; use that of the backbone's own layers.
    """

    def __init__(self, *, dimension: int, seed: int = 0, spread: float = 0.02) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, dimension)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.dense.weight, std=spread, generator=generator)
        nn.init.zeros_(self.dense.bias)

    def forward(self, embedding: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The projected embedding."""
        projected: Tensor = self.dense(embedding).tanh()
        return projected


class WidthProjection(nn.Module):
    """``Linear(d, k)`` from a student's width to its teacher's.

    It is initialised orthogonally: from narrow to wide, lengths and angles of the student's
    embeddings are preserved.

    Args:
        dimension: width of the student's embedding.
        outputs: width of the teacher's.
        seed: of the initial weights.
    """

    def __init__(self, *, dimension: int, outputs: int, seed: int = 0) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, outputs)
        generator = torch.Generator().manual_seed(seed)
        nn.init.orthogonal_(self.dense.weight, generator=generator)
        nn.init.zeros_(self.dense.bias)

    def forward(self, embedding: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The embedding in the teacher's width."""
        projected: Tensor = self.dense(embedding)
        return projected
