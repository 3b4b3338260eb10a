"""Heads that training puts on the embedding and that are left out in use."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Projection", "WidthProjection"]


class Projection(nn.Module):
    """``tanh(Linear(d, d))``: SimCSE's MLP head, for training only.

    Args:
        dimension: width of an embedding.
        seed: of the initial weights.
        spread: their standard deviation, as the backbone's own layers were initialised.
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

    It starts as orthogonal as it can be: from narrow to wide, lengths and angles are those of the
    student's own embeddings.

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
