"""Objectives for graded triples only: two sentences, a condition and a label."""

from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

from tertium.errors import TertiumError
from tertium.objectives.base import Objective
from tertium.types import DataKind, Graded, Term, ViewPair

__all__ = ["Consistency", "Quadruplet", "ordered_pairs", "quadruplet"]


class _TripleObjective(Objective):
    """An objective on scores of triples, not on views."""

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"conditional"})

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """Raises: views have no conditions."""
        raise TertiumError(f"{type(self).__name__} learns only from conditional data.")


def quadruplet(
    nearer: Float[Tensor, " n"], farther: Float[Tensor, " n"], *, margin: float
) -> Float[Tensor, " n"]:
    """``max(0, margin + d(nearer) - d(farther))`` with d = 1 - cosine: C-STS, section 4.

    Args:
        nearer: cosine of the sentences under the condition with the higher label.
        farther: their cosine under the condition with the lower label.
        margin: by which the distances should differ.
    """
    return (margin - nearer + farther).clamp(min=0)


def ordered_pairs(labels: Float[Tensor, " n"], groups: Int[Tensor, " n"]) -> Bool[Tensor, "n n"]:
    """Whether row i has the sentences of row j and a higher label."""
    return (groups[:, None] == groups) & (labels[:, None] > labels)


class Quadruplet(_TripleObjective):
    """Of two conditions on the same sentences, the one with the higher label has the higher cosine.

    C-STS (Deshpande et al., 2023). It only ranks, so on its own it leaves the scores uncalibrated;
    add ``mse`` to fix that. Rows without a partner of a different label are ignored.

    Args:
        margin: by which the distances should differ; the authors use 1.
    """

    needs_vectors: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    def __init__(self, *, margin: float = 1.0) -> None:
        super().__init__()
        if not margin > 0:
            raise TertiumError(f"margin must be positive, got {margin}.")
        self.margin = margin

    def terms_from_scores(self, graded: Graded) -> dict[str, Term]:
        """One term, a value for each pair of conditions with different labels."""
        cosine = graded.compared.cosine
        if cosine is None:
            raise TertiumError("quadruplet compares vectors: it needs head bi or tri.")
        nearer, farther = ordered_pairs(graded.labels, graded.groups).nonzero(as_tuple=True)
        if not len(nearer):
            return {"quadruplet": Term(0 * cosine)}
        values = quadruplet(cosine[nearer], cosine[farther], margin=self.margin)
        return {"quadruplet": Term(values)}


class Consistency(_TripleObjective):
    """``(s - s')²`` of two passes: R-Drop (Liang et al., 2021), for scores instead of classes.

    Every triple is encoded twice with different dropout, so a step takes twice as long; the other
    objectives see both passes.
    """

    auxiliary: ClassVar[bool] = True
    passes: ClassVar[int] = 2

    def terms_from_scores(self, graded: Graded) -> dict[str, Term]:
        """One term, a value for each triple."""
        if graded.passes != 2:
            raise TertiumError(f"consistency compares two passes, got {graded.passes}.")
        first, second = graded.compared.score.chunk(2)
        return {"consistency": Term((first - second).square())}
