"""The base class of objectives, and what each declares about the data and parts it needs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.types import Crossing, DataKind, Graded, Term, ViewPair

__all__ = ["NonFiniteLossError", "Objective", "StagePart", "Tempered", "reduce_terms"]

StagePart = Literal["other objectives", "views", "momentum", "projection: mlp", "tower"]


class NonFiniteLossError(TertiumError):
    """A loss term became NaN or infinite."""


class Objective(nn.Module, ABC):
    """A loss made of named terms; it receives encoded views, never a model.

    A recipe's stage is checked against these declarations, and the training module provides what
    they request.

    Attributes:
        learns_from: the kinds of data it learns from.
        in_batch: other examples of the batch are its negatives, so that distributed processes must
            exchange their embeddings.
        two_encoders: the first view comes from an independent copy of the encoder.
        two_towers: it uses the towers of a twin separately.
        takes_queue: embeddings of earlier batches can serve as further negatives.
        needs_head: ``pair`` for a head that scores two embeddings, ``language`` for one that
            predicts tokens; it arrives as the argument ``head``.
        classifies: its head has an output for each label.
        needs_teacher: the second view is a teacher's vector.
        needs_vectors: the conditional head must compare two vectors.
        needs_groups: all conditions on the same sentences must be in one batch.
        pairs_rows: row i of both views must be the same example, which excludes objectives with an
            ``anchor_stride``.
        auxiliary: it is useless without another objective beside it.
        excludes: parts of a stage that it cannot be combined with, and why.
        passes: how often each triple is encoded, with different dropout every time.
        anchor_stride: only every n-th example is needed as first view.
        crossing: the cross attention between two towers that it uses, or None.
        mask_probability: share of tokens to hide in a further pass, or None for no such pass.
        counts_padding: it uses rows of padding, so that a batch must be encoded in one pass.
        threshold: errors below it count as 0; at most half a label step.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"texts", "positives", "triplets"})
    in_batch: ClassVar[bool] = False
    two_encoders: ClassVar[bool] = False
    two_towers: ClassVar[bool] = False
    takes_queue: ClassVar[bool] = False
    needs_head: ClassVar[Literal["none", "pair", "language"]] = "none"
    classifies: ClassVar[bool] = False
    needs_teacher: ClassVar[bool] = False
    needs_vectors: ClassVar[bool] = False
    needs_groups: ClassVar[bool] = False
    pairs_rows: ClassVar[bool] = True
    auxiliary: ClassVar[bool] = False
    excludes: ClassVar[Mapping[StagePart, str]] = {}
    passes: ClassVar[int] = 1
    anchor_stride: int = 1
    crossing: Crossing | None = None
    mask_probability: float | None = None
    counts_padding: bool = False
    threshold: float | None = None

    @classmethod
    def of_scores(cls, *, span: float, **settings: Any) -> "Objective":
        """The objective for scores from 0 to 1; ``settings`` are on the scale of the labels.

        Args:
            span: difference between the highest and the lowest label.
            settings: arguments of the constructor.
        """
        return cls(**settings)

    @abstractmethod
    def terms(self, views: ViewPair) -> dict[str, Term]:
        """Unreduced values and weight of each term."""

    def terms_from_scores(self, graded: Graded) -> dict[str, Term]:
        """The same for triples that a conditional head has scored."""
        raise TertiumError(f"{type(self).__name__} does not learn from conditional data.")

    def attention_layers(self, depth: int) -> range:
        """Layers whose attention it uses, of ``depth`` in all; none by default."""
        return range(0)

    def forward(self, views: ViewPair) -> dict[str, Float[Tensor, ""]]:
        """Weighted mean of each term; the loss is their sum."""
        return reduce_terms(self.terms(views), views.weights)


class Tempered(Objective):
    """An objective whose cosines are divided by a temperature."""

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        if not temperature > 0:
            raise TertiumError(f"temperature must be positive, got {temperature}.")
        self.temperature = temperature


def reduce_terms(
    terms: dict[str, Term], weights: Float[Tensor, " n"] | None = None
) -> dict[str, Float[Tensor, ""]]:
    """Weighted means, the one place where a loss is reduced; raises if one is not finite.

    Args:
        terms: terms by name.
        weights: weights of the rows of a batch; every term must then have one value per row.
    """
    if weights is not None:
        for name, term in terms.items():
            if term.value.shape != weights.shape:
                raise TertiumError(
                    f"The loss term '{name}' does not have one value per pair, so pairs cannot be "
                    "weighted: remove weight, or use an objective such as smooth_k2."
                )
        terms = {name: Term(term.value * weights, term.weight) for name, term in terms.items()}
    means = {name: term.weight * term.value.mean() for name, term in terms.items()}
    for name, mean in means.items():
        if not mean.isfinite():
            raise NonFiniteLossError(
                f"The loss term '{name}' is {mean.item()}. Lower the learning rate, or check the "
                "last batch for empty or broken texts."
            )
    return means
