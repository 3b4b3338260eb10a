"""The head that contrastive training puts on the embedding and leaves out in use."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Projection"]


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
