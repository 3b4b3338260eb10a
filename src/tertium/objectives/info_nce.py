"""SimCSE's objective, unsupervised and with hard negatives."""

from tertium.functional import info_nce
from tertium.objectives.base import Objective
from tertium.types import Term, ViewPair

__all__ = ["InfoNCE"]


class InfoNCE(Objective):
    """N-way contrast of two views, with hard negatives where the batch has them.

    SimCSE: Gao, Yao & Chen, 2021, arXiv:2104.08821, Eq. 1 (unsupervised) and Eq. 5 (supervised).

    Args:
        temperature: divides the cosines.
        negative_weight: added to the logit of an anchor's own hard negative.
    """

    def __init__(self, *, temperature: float = 0.05, negative_weight: float = 0.0) -> None:
        super().__init__()
        self.temperature = temperature
        self.negative_weight = negative_weight

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The one term ``contrast``, a value per anchor."""
        values = info_nce(
            views.first.embedding,
            views.second.embedding,
            temperature=self.temperature,
            negatives=None if views.negatives is None else views.negatives.embedding,
            negative_weight=self.negative_weight,
        )
        return {"contrast": Term(values)}
