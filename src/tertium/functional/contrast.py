"""The contrastive losses, one value per anchor."""

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.functional.similarity import cosine_matrix

__all__ = ["contrast_logits", "info_nce"]


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
