"""Objectives that rank the pairs of a batch by their labels."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.functional import cosine_pairs
from tertium.functional.similarity import unit
from tertium.objectives.base import Tempered
from tertium.types import DataKind, Graded, Term, ViewPair

__all__ = ["AnglE", "CoSent", "angle_similarity", "cosent"]


def cosent(
    scores: Float[Tensor, " n"], labels: Float[Tensor, " n"], *, temperature: float
) -> Float[Tensor, ""]:
    """``log(1 + Σ exp((s_j - s_i) / temperature))`` over all i, j where i has the higher label.

    A smooth count of the pairs in the wrong order (Su, 2022). It is 0 if all labels are equal.
    """
    wrong = (scores - scores[:, None]) / temperature  # row i, column j: s_j - s_i
    ordered = labels[:, None] > labels
    return torch.cat([wrong[ordered], scores.new_zeros(1)]).logsumexp(dim=0)


def angle_similarity(
    first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """How small the angle between two complex vectors is: 1 for equal vectors.

    AnglE (Li & Li, 2024, arXiv:2309.12871), as implemented in sentence-transformers.

    The first half of a vector holds real parts, the second imaginary ones. The value is
    ``|Σ Re(z) + Im(z)|`` of the quotients of both vectors, each scaled to length 1.
    """
    if first.shape[1] % 2:
        raise TertiumError(
            f"angle needs embeddings of even width, but these have {first.shape[1]}: use cosent."
        )
    (a, b), (c, d) = unit(first).chunk(2, dim=1), unit(second).chunk(2, dim=1)
    real, imaginary = a * c + b * d, b * c - a * d  # of one number times the other's conjugate
    return (real + imaginary).sum(dim=1).abs()


class CoSent(Tempered):
    """Of two pairs (or triples) in a batch, the one with the higher label should score higher.

    It only ranks, which is what a rank correlation measures. Pairs are compared by their cosine,
    triples by the score of the conditional head.

    Args:
        temperature: divides differences of scores; the author uses 0.05.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"graded", "conditional"})
    in_batch: ClassVar[bool] = True

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """One term, a single value for the batch."""
        cosines = cosine_pairs(views.first.embedding, views.second.embedding)
        return {"cosent": Term(cosent(cosines, views.targets, temperature=self.temperature)[None])}

    def terms_from_scores(self, graded: Graded) -> dict[str, Term]:
        """The same of scores that are there already."""
        found = cosent(graded.compared.score, graded.labels, temperature=self.temperature)
        return {"cosent": Term(found[None])}


class AnglE(Tempered):
    """Like ``cosent``, with the angle between complex vectors instead of the cosine.

    The cosine saturates near 1 and -1; the angle does not.

    Args:
        temperature: divides differences of angles.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"graded"})
    in_batch: ClassVar[bool] = True

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """One term, a single value for the batch."""
        angles = angle_similarity(views.first.embedding, views.second.embedding)
        return {"angle": Term(cosent(angles, views.targets, temperature=self.temperature)[None])}
