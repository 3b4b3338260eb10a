"""Detects collapse of the embeddings at every evaluation."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.functional import anisotropy, effective_rank, uniformity

__all__ = ["CollapseError", "Measurement", "check_health", "measure"]

_LEAST_RANK = 2.0
_MOST_ANISOTROPY = 0.995


class CollapseError(TertiumError):
    """Training made all embeddings equal, or the score undefined."""


@dataclass(frozen=True)
class Measurement:
    """The result of an evaluation during training.

    Attributes:
        score: the score that selects the checkpoint; higher is better.
        uniformity: uniformity of a sample of embeddings; lower is more spread out.
        effective_rank: number of directions they use.
        anisotropy: mean cosine of two different sentences.

    The last three are None for a model without sentence embeddings.
    """

    score: float
    uniformity: float | None = None
    effective_rank: float | None = None
    anisotropy: float | None = None


def measure(score: float, embeddings: Float[Tensor, "n d"]) -> Measurement:
    """The score together with measures of the embedding space."""
    rows = embeddings.double()
    return Measurement(
        score=score,
        uniformity=uniformity(rows).item(),
        effective_rank=effective_rank(rows).item(),
        anisotropy=anisotropy(rows).item(),
    )


def check_health(found: Measurement, *, step: int) -> None:
    """Raise with advice if the embeddings have collapsed."""
    if math.isnan(found.score):
        problem = "the score is undefined, because all predictions are equal"
    elif found.effective_rank is None or found.anisotropy is None:
        return
    elif not found.effective_rank >= _LEAST_RANK:
        problem = f"embeddings span {found.effective_rank:.2f} directions"
    elif found.anisotropy > _MOST_ANISOTROPY:
        problem = f"two different sentences have cosine {found.anisotropy:.4f} on average"
    else:
        return
    raise CollapseError(
        f"The model has collapsed at step {step}: {problem}. Lower the learning rate, train for "
        "fewer steps, or check that labels and texts vary; earlier checkpoints are kept."
    )
