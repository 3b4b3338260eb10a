"""Errors against a target: graded labels, with or without a dead zone, and teachers' vectors."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tertium.errors import TertiumError, unknown_name
from tertium.functional.similarity import cosine_matrix
from tertium.objectives.base import Objective, StagePart
from tertium.types import DataKind, Graded, Term, ViewPair

__all__ = [
    "L1",
    "MSE",
    "Clip",
    "CrossEntropy",
    "Distillation",
    "SmoothK2",
    "TranslatedReLU",
    "absolute_error",
    "clip_to_range",
    "cosine_error",
    "embedding_error",
    "smooth_k2",
    "squared_error",
    "translated_relu",
]


class Clip(StrEnum):
    """At which ends of the label range predictions are clipped."""

    BOTH = "both"
    LOW = "low"  # as in the authors' code
    NONE = "none"


def absolute_error(
    predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """L1: ``x = |predicted - gold|``."""
    return (predicted - gold).abs()


def squared_error(predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """MSE before the mean: ``x²``."""
    return (predicted - gold).square()


def translated_relu(
    predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"], *, slope: float, threshold: float
) -> Float[Tensor, " n"]:
    """Translated ReLU: STS-Regression, Eq. 1.

    ``max(0, slope · (x - threshold))``. At ``x = threshold`` exactly the gradient is the slope, as
    in the authors' code.
    """
    return slope * (absolute_error(predicted, gold) - threshold).clamp(min=0)


def smooth_k2(
    predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"], *, slope: float, threshold: float
) -> Float[Tensor, " n"]:
    """Smooth K2 loss: STS-Regression, Eq. 2.

    0 if ``x < threshold``, else ``slope · (x - threshold)²``.
    """
    return slope * (absolute_error(predicted, gold) - threshold).clamp(min=0).square()


def clip_to_range(
    predicted: Float[Tensor, " n"], *, low: float, high: float, clip: Clip
) -> Float[Tensor, " n"]:
    """Clip predictions to the label range, which stops their gradient.

    STS-Regression, section 3; the authors' code clips only at the low end.
    """
    if clip is Clip.NONE:
        return predicted
    return predicted.clamp(min=low, max=high if clip is Clip.BOTH else None)


class _Regression(Objective):
    """A head's score against graded labels.

    Args:
        head: two embeddings to a column of scores.
        low: lowest label.
        high: highest label.
        clip: at which ends predictions beyond the range are moved to the end.
    """

    name: str
    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"graded", "conditional"})
    needs_head: ClassVar[Literal["none", "pair", "language"]] = "pair"

    def __init__(
        self, *, head: nn.Module, low: float, high: float, clip: Clip | str = Clip.BOTH
    ) -> None:
        super().__init__()
        self.head = head
        self.low = low
        self.high = high
        if clip not in set(Clip):
            raise unknown_name("clip", clip, Clip)
        self.clip = Clip(clip)

    @classmethod
    def of_scores(cls, *, span: float, **settings: Any) -> Objective:
        """The same without a head.

        By default predictions beyond the range are not clipped: a fresh regressor starts at its
        lower end, where clipping would stop half of the gradients.
        """
        return cls(head=nn.Identity(), low=0.0, high=1.0, **{"clip": Clip.NONE, **settings})

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """One term, named after the loss, a value per pair."""
        scores = self.head(views.first.embedding, views.second.embedding).squeeze(1)
        return self._terms(scores, views.targets)

    def terms_from_scores(self, graded: Graded) -> dict[str, Term]:
        """The same of scores that are there already."""
        return self._terms(graded.compared.score, graded.labels)

    def _terms(self, scores: Float[Tensor, " n"], gold: Float[Tensor, " n"]) -> dict[str, Term]:
        clipped = clip_to_range(scores, low=self.low, high=self.high, clip=self.clip)
        return {self.name: Term(self.values(clipped, gold))}

    @abstractmethod
    def values(
        self, predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """The loss of each pair."""


class L1(_Regression):
    """Absolute error."""

    name = "l1"
    values = staticmethod(absolute_error)


class MSE(_Regression):
    """Squared error."""

    name = "mse"
    values = staticmethod(squared_error)


class _DeadZone(_Regression):
    """A loss that ignores errors below a threshold.

    Args:
        head: two embeddings to a column of scores.
        low: lowest label.
        high: highest label.
        clip: at which ends predictions beyond the range are moved to the end.
        slope: the paper's k.
        threshold: the paper's x0, at most half a label step.
    """

    formula: Callable[..., Float[Tensor, " n"]]

    def __init__(
        self,
        *,
        head: nn.Module,
        low: float,
        high: float,
        clip: Clip | str = Clip.BOTH,
        slope: float = 2.0,
        threshold: float = 0.25,
    ) -> None:
        super().__init__(head=head, low=low, high=high, clip=clip)
        if not slope > 0:
            raise TertiumError(f"slope must be positive, got {slope}.")
        if not threshold >= 0:
            raise TertiumError(f"threshold must not be negative, got {threshold}.")
        self.slope = slope
        self.threshold: float = threshold

    @classmethod
    def of_scores(cls, *, span: float, threshold: float = 0.25, **settings: Any) -> Objective:
        """The same, with the threshold divided by the span."""
        return super().of_scores(span=span, threshold=threshold / span, **settings)

    def values(
        self, predicted: Float[Tensor, " n"], gold: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """The loss of each pair, by the formula with this slope and threshold."""
        return self.formula(predicted, gold, slope=self.slope, threshold=self.threshold)


class TranslatedReLU(_DeadZone):
    """Linear beyond the dead zone; better for noisy labels."""

    name = "translated_relu"
    formula = staticmethod(translated_relu)


class SmoothK2(_DeadZone):
    """Quadratic beyond the dead zone; better for clean labels."""

    name = "smooth_k2"
    formula = staticmethod(smooth_k2)


class CrossEntropy(Objective):
    """Classification into the ordered labels: SBERT (Reimers & Gurevych, 2019), section 3.

    Args:
        head: two embeddings to one score per class.
        low: lowest label.
        step: distance between two labels.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"graded"})
    needs_head: ClassVar[Literal["none", "pair", "language"]] = "pair"
    classifies: ClassVar[bool] = True

    def __init__(self, *, head: nn.Module, low: float, step: float) -> None:
        super().__init__()
        self.head = head
        self.low = low
        self.step = step

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """One term, a value per pair."""
        scores = self.head(views.first.embedding, views.second.embedding)
        classes = self._classes(views.targets)
        return {"cross_entropy": Term(cross_entropy(scores, classes, reduction="none"))}

    def _classes(self, targets: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
        return torch.round((targets - self.low) / self.step).long()


def embedding_error(
    student: Float[Tensor, "n d"], teacher: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """Mean squared difference of two embeddings, one value per text.

    JTCSE-D (Zong et al., 2025, section IV) and EDFSE use it to distil an ensemble into one encoder.
    """
    return (student - teacher).square().mean(dim=1)


def cosine_error(
    student: Float[Tensor, "n d"], teacher: Float[Tensor, "n e"]
) -> Float[Tensor, " n"]:
    """Mean squared difference of a text's cosines with all texts of the batch, a value per text."""
    found, wanted = (cosine_matrix(rows, rows) for rows in (student, teacher))
    return (found - wanted).square().mean(dim=1)


class Distillation(Objective):
    """The first view, the student's, comes near the second, the teacher's.

    By default the embeddings do, by their mean squared error. With ``prefixes`` their cosines do:
    those of the whole vector and of each beginning of it, in the manner of Matryoshka
    representation learning (Kusupati et al., 2022, equation 1), so that vectors can be cut.

    Args:
        prefixes: lengths of the beginnings.
    """

    learns_from: ClassVar[frozenset[DataKind]] = frozenset({"texts"})
    needs_teacher: ClassVar[bool] = True
    excludes: ClassVar[Mapping[StagePart, str]] = {
        "other objectives": "it uses only one view of a text",
        "views": "it uses only one view of a text",
        "momentum": "it has no negatives",
        "projection: mlp": "it moves the embedding itself",
    }

    def __init__(self, *, prefixes: tuple[int, ...] = ()) -> None:
        super().__init__()
        if any(length < 1 for length in prefixes):
            raise TertiumError(f"prefixes are lengths of vectors, from 1 on, not {prefixes}.")
        self.prefixes = prefixes

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """The term ``distil``, one value per text."""
        student, teacher = views.first.embedding, views.second.embedding
        if not self.prefixes:
            return {"distil": Term(embedding_error(student, teacher))}
        lengths = (student.shape[1], *self.prefixes)
        errors = [cosine_error(student[:, :length], teacher) for length in lengths]
        return {"distil": Term(torch.stack(errors).sum(dim=0))}
