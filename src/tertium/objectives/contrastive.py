"""Contrastive objectives: two views of a sentence attract each other, two sentences repel."""

from typing import ClassVar

from tertium.errors import TertiumError
from tertium.functional import contrastive_tension, cosine_pairs, info_nce, nt_xent
from tertium.objectives.base import Objective, Tempered
from tertium.types import DataKind, Term, ViewPair

__all__ = ["ContrastiveTension", "InfoNCE", "NTXent", "PositivesOnly"]


class InfoNCE(Tempered):
    """N-way contrast of two views, with hard negatives and a queue if the batch has them.

    SimCSE: Gao, Yao & Chen, 2021, arXiv:2104.08821, Eq. 1 (unsupervised) and Eq. 5 (supervised).

    Args:
        temperature: divides the cosines.
        negative_weight: added to the logit of an anchor's own hard negative.
    """

    in_batch: ClassVar[bool] = True
    takes_queue: ClassVar[bool] = True

    def __init__(self, *, temperature: float = 0.05, negative_weight: float = 0.0) -> None:
        super().__init__(temperature=temperature)
        self.negative_weight = negative_weight

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``contrast``, one value per anchor."""
        values = info_nce(
            views.first.embedding,
            views.second.embedding,
            temperature=self.temperature,
            negatives=None if views.negatives is None else views.negatives.embedding,
            negative_weight=self.negative_weight,
            queue=views.queue,
        )
        return {"contrast": Term(values)}


class NTXent(Tempered):
    """2N-way contrast of two views: SimCLR (Chen et al., 2020); Mirror-BERT and JTCSE use it.

    Args:
        temperature: divides the cosines.
    """

    in_batch: ClassVar[bool] = True
    takes_queue: ClassVar[bool] = True

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``contrast``, one value per view."""
        first, second = views.first.embedding, views.second.embedding
        values = nt_xent(first, second, temperature=self.temperature, queue=views.queue)
        return {"contrast": Term(values)}


class PositivesOnly(Tempered):
    """Only the numerator of InfoNCE: the ablation without negatives in miCSE's appendix.

    Args:
        temperature: divides the cosines.
    """

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``attraction``, one value per sentence."""
        cosines = cosine_pairs(views.first.embedding, views.second.embedding)
        return {"attraction": Term(-cosines / self.temperature)}


class ContrastiveTension(Objective):
    """Two encoders agree on the same sentence only: Carlsson et al., 2021.

    The batch is split into groups; the first sentence of a group, encoded by the other encoder, is
    the anchor, and the group's sentences are its candidates, itself first.

    Args:
        negatives: other sentences per anchor; the batch size must be a multiple of
            ``negatives + 1``.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"texts"})
    two_encoders: ClassVar[bool] = True
    pairs_rows: ClassVar[bool] = False

    def __init__(self, *, negatives: int = 7) -> None:
        super().__init__()
        if negatives < 1:
            raise TertiumError(f"negatives must be at least 1, got {negatives}.")
        self.anchor_stride = negatives + 1

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``tension``, one value per anchor and candidate."""
        anchors, candidates = views.first.embedding, views.second.embedding
        groups = candidates.reshape(len(anchors), self.anchor_stride, -1)
        return {"tension": Term(contrastive_tension(anchors, groups).flatten())}
