"""Cosine similarity, and measures of an embedding space: Wang & Isola (2020) and the spectrum."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

__all__ = [
    "alignment",
    "anisotropy",
    "cosine_matrix",
    "cosine_pairs",
    "effective_rank",
    "uniformity",
    "unit",
]


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


def alignment(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Mean squared distance of positive pairs on the unit sphere: Wang & Isola (2020), Eq. 1.

    NaN if there are no pairs.
    """
    return (unit(first) - unit(second)).square().sum(dim=1).mean()


def uniformity(vectors: Float[Tensor, "n d"], *, t: float = 2.0) -> Float[Tensor, ""]:
    """Log mean Gaussian potential over all pairs of rows: Wang & Isola (2020), Eq. 2.

    Every unordered pair of distinct rows counts once; repeated sentences stay in.
    """
    return torch.pdist(unit(vectors)).square().mul(-t).exp().mean().log()


def anisotropy(vectors: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Mean cosine of two different rows: 0 for isotropic vectors, 1 for collapsed ones.

    >>> anisotropy(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]]))
    tensor(0.3333)
    """
    rows = unit(vectors)
    n = len(rows)
    return (rows.sum(dim=0).square().sum() - rows.square().sum()) / (n * (n - 1))


def effective_rank(vectors: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Exponential of the entropy of the centred rows' singular values: Roy & Vetterli (2007).

    It is 1 if all rows lie on a line and at most ``min(n - 1, d)``; NaN if all rows are equal.
    """
    singular = torch.linalg.svdvals(vectors - vectors.mean(dim=0))
    share = singular / singular.sum()
    entropy: Tensor = torch.special.entr(share).sum()
    return entropy.exp()
