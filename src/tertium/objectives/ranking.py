"""All triples of a batch in the order of their labels: CoSENT."""

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.objectives.base import TripleObjective
from tertium.types import Graded, Term

__all__ = ["CoSent", "cosent"]


def cosent(
    scores: Float[Tensor, " n"], labels: Float[Tensor, " n"], *, temperature: float
) -> Float[Tensor, ""]:
    """``log(1 + Σ exp((s_j - s_i) / temperature))`` over all i, j with a higher label of i.

    A smooth count of the pairs in the wrong order (Su, 2022). It is 0 if all labels are equal.
    """
    wrong = (scores - scores[:, None]) / temperature  # row i, column j: s_j - s_i
    ordered = labels[:, None] > labels
    return torch.cat([wrong[ordered], scores.new_zeros(1)]).logsumexp(dim=0)


class CoSent(TripleObjective):
    """Of any two triples of the batch, the one with the higher label has the higher score.

    It puts in order and does not grade, as ``quadruplet``, but across sentence pairs: what a rank
    correlation asks for.

    Args:
        temperature: differences of scores are divided by it; its author's is 0.05.
    """

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        if not temperature > 0:
            raise TertiumError(f"temperature must be positive, got {temperature}.")
        self.temperature = temperature

    def judge(self, graded: Graded) -> dict[str, Term]:
        """One term, a single value for the batch."""
        found = cosent(graded.compared.score, graded.labels, temperature=self.temperature)
        return {"cosent": Term(found[None])}
