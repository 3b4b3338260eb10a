"""The quadruplet loss of C-STS: the same sentences under two conditions, put in order."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from tertium.errors import TertiumError
from tertium.objectives.base import TripleObjective
from tertium.types import Graded, Term

__all__ = ["Quadruplet", "ordered_pairs", "quadruplet"]


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


class Quadruplet(TripleObjective):
    """Of two conditions on the same sentences, the one with the higher label has the higher cosine.

    It puts in order and does not grade: alone it leaves the scores uncalibrated, which ``mse``
    beside it mends. Rows without a partner, or with one of the same label, have no part in it.

    Args:
        margin: by which the distances should differ; the authors' is 1.
    """

    def __init__(self, *, margin: float = 1.0) -> None:
        super().__init__()
        if not margin > 0:
            raise TertiumError(f"margin must be positive, got {margin}.")
        self.margin = margin

    def judge(self, graded: Graded) -> dict[str, Term]:
        """One term, a value for each pair of conditions with different labels."""
        cosine = graded.compared.cosine
        if cosine is None:
            raise TertiumError("quadruplet compares vectors: it needs head bi or tri.")
        nearer, farther = ordered_pairs(graded.labels, graded.groups).nonzero(as_tuple=True)
        if not len(nearer):
            return {"quadruplet": Term(0 * cosine)}
        values = quadruplet(cosine[nearer], cosine[farther], margin=self.margin)
        return {"quadruplet": Term(values)}
