"""The contrastive losses, one value per anchor."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tertium.functional.similarity import cosine_matrix

__all__ = ["contrast_logits", "contrastive_tension", "info_nce", "nt_xent"]


def contrast_logits(
    anchors: Float[Tensor, "n d"],
    positives: Float[Tensor, "n d"],
    *,
    temperature: float,
    negatives: Float[Tensor, "n d"] | None = None,
    negative_weight: float = 0.0,
    queue: Float[Tensor, "q d"] | None = None,
) -> Float[Tensor, "n columns"]:
    """Logits of N-way contrast: SimCSE (Gao et al., 2021), Eq. 1 and 5.

    Columns are the positives, then the hard negatives, then the queue. ``negative_weight`` is
    added to the logit of a row's own hard negative, after the division by the temperature.
    """
    blocks = [cosine_matrix(anchors, positives) / temperature]
    if negatives is not None:
        own = torch.eye(len(anchors), dtype=anchors.dtype, device=anchors.device)
        blocks.append(cosine_matrix(anchors, negatives) / temperature + negative_weight * own)
    if queue is not None:
        blocks.append(cosine_matrix(anchors, queue) / temperature)
    return torch.cat(blocks, dim=1)


def info_nce(
    anchors: Float[Tensor, "n d"],
    positives: Float[Tensor, "n d"],
    *,
    temperature: float,
    negatives: Float[Tensor, "n d"] | None = None,
    negative_weight: float = 0.0,
    queue: Float[Tensor, "q d"] | None = None,
) -> Float[Tensor, " n"]:
    """In-batch contrastive loss, one value per anchor: SimCSE (Gao et al., 2021), Eq. 1.

    Row i of ``positives`` is the positive of anchor i; every other column is a negative.
    """
    logits = contrast_logits(
        anchors,
        positives,
        temperature=temperature,
        negatives=negatives,
        negative_weight=negative_weight,
        queue=queue,
    )
    return logits.logsumexp(dim=1) - logits.diagonal()


def nt_xent(
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    *,
    temperature: float,
    against: tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]] | None = None,
    queue: Float[Tensor, "q d"] | None = None,
) -> Float[Tensor, " rows"]:
    """2N-way contrast over both views together, 2n values: SimCLR (Chen et al., 2020), Eq. 1.

    The target of each of the 2n rows is its other view; its own column is excluded. With
    ``against``, the two views of another tower, the columns are that tower's: a row's target is
    the other view of its sentence there, and the same view is excluded (JTCSE).
    ``queue`` adds negatives to every row.
    """
    rows = torch.cat([first, second])
    columns = rows if against is None else torch.cat(against)
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    logits = (cosine_matrix(rows, columns) / temperature).masked_fill(own, -torch.inf)
    if queue is not None:
        logits = torch.cat([logits, cosine_matrix(rows, queue) / temperature], dim=1)
    targets = torch.arange(len(rows), device=rows.device).roll(len(first))
    return logits.logsumexp(dim=1) - logits.gather(1, targets[:, None]).squeeze(1)


def contrastive_tension(
    anchors: Float[Tensor, "g d"], candidates: Float[Tensor, "g k d"]
) -> Float[Tensor, "g k"]:
    """Binary cross-entropy of dot products: Contrastive Tension (Carlsson et al., 2021), Eq. 1.

    The anchors come from one encoder and the candidates from the other. An anchor's first
    candidate is the same sentence; the others are different sentences.
    """
    logits = torch.einsum("gd,gkd->gk", anchors, candidates)
    same = torch.zeros_like(logits)
    same[:, 0] = 1.0
    return binary_cross_entropy_with_logits(logits, same, reduction="none")
