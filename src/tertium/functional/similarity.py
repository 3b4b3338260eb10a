"""Cosine similarity, by matrix and by pair."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["cosine_matrix", "cosine_pairs"]


def cosine_matrix(
    first: Float[Tensor, "n d"], second: Float[Tensor, "m d"]
) -> Float[Tensor, "n m"]:
    """Cosine of every row of ``first`` with every row of ``second``; a zero row gives 0.

    >>> import torch
    >>> cosine_matrix(torch.eye(2), torch.tensor([[3.0, 0.0]]))
    tensor([[1.],
            [0.]])
    """
    return unit(first) @ unit(second).T


def cosine_pairs(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Cosine of row i of ``first`` with row i of ``second``; a zero row gives 0."""
    return (unit(first) * unit(second)).sum(dim=1)


def unit(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Rows scaled to length 1; a row shorter than 1e-8 is divided by 1e-8."""
    return normalize(vectors, dim=1, eps=1e-8)
