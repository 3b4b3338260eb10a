"""Training on triples: two sentences, a condition and a label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tertium.models.triple_encoder import ConditionalModel
from tertium.objectives.base import reduce_terms
from tertium.training.examples import Examples
from tertium.training.module import TrainingModule, WeightedObjective
from tertium.types import Compared, Graded, Term, TextTriple

__all__ = ["ConditionalModule", "TripleCollator", "TripleExamples"]

Group = list[tuple[TextTriple, float]]


@dataclass(frozen=True)
class TripleExamples(Examples):
    """Triples with labels, in groups that stay in one batch.

    Attributes:
        texts: two sentences and a condition each.
        labels: from 0 to 1.
        groups: rows of each example; one row each, or all conditions of the same sentences.
    """

    groups: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, index: int) -> Group:  # type: ignore[override]
        labels = cast(Sequence[float], self.labels)
        return [(cast(TextTriple, self.texts[at]), labels[at]) for at in self.groups[index]]


class TripleCollator:
    """A batch of groups as tensors: sequences of all triples, their labels and group numbers."""

    def __init__(self, model: ConditionalModel) -> None:
        self._model = model

    def __call__(self, groups: Sequence[Group]) -> dict[str, Tensor]:
        """Ids, masks and segments, ``labels`` and ``groups``."""
        rows = [(triple, label, at) for at, group in enumerate(groups) for triple, label in group]
        features = self._model.features(self._model.sequences([row[0] for row in rows]))
        return {
            **features,
            "labels": torch.tensor([row[1] for row in rows], dtype=torch.float32),
            "groups": torch.tensor([row[2] for row in rows]),
        }

    def lengths(self, examples: TripleExamples) -> NDArray[np.int64]:
        """Tokens of the longest sequence of each example."""
        rows = self._model.sequences([cast(TextTriple, triple) for triple in examples.texts])
        longest = [max(len(sequence.ids) for sequence in row) for row in rows]
        return np.array([max(longest[at] for at in group) for group in examples.groups])


class _Judge(Protocol):
    """An objective that learns from triples."""

    def judge(self, graded: Graded) -> dict[str, Term]:
        """Unreduced values and weight of each term."""
        ...


class ConditionalModule(TrainingModule):
    """A conditional model and what it is compared with.

    Args:
        model: encoder and head.
        objectives: by name, with their weights; each has ``judge``.
    """

    def __init__(
        self, model: ConditionalModel, objectives: Mapping[str, WeightedObjective]
    ) -> None:
        super().__init__(model.encoder, objectives, sides=3)
        self.passes = max(getattr(o.objective, "passes", 1) for o in objectives.values())
        self.head = model.head
        self.conditional = _Unregistered(model)

    def train(self, mode: bool = True) -> "ConditionalModule":  # noqa: FBT001, FBT002 (torch's)
        """Training or evaluation mode, of the model that forwards too."""
        super().train(mode)
        if hasattr(self, "conditional"):
            self.conditional.model.train(mode)
        return self

    def forward(
        self,
        labels: Tensor | None = None,
        groups: Tensor | None = None,
        **features: Tensor,
    ) -> dict[str, Tensor]:
        """The loss, and each weighted term under its name."""
        graded = self._graded(features, cast(Tensor, labels), cast(Tensor, groups))
        terms = {
            term: self._weights[name] * value
            for name, objective in self.objectives.items()
            for term, value in reduce_terms(cast(_Judge, objective).judge(graded)).items()
        }
        total = sum(terms.values(), start=graded.compared.score.new_zeros(()))
        return {"loss": total, **terms}

    def _graded(self, features: dict[str, Tensor], labels: Tensor, groups: Tensor) -> Graded:
        """The batch as often as an objective wants to see it; each pass is a group of its own."""
        seen = [self.conditional.model(features) for _ in range(self.passes)]
        if self.passes == 1:
            return Graded(seen[0], labels, groups)
        cosines = [compared.cosine for compared in seen if compared.cosine is not None]
        apart = int(groups.max()) + 1
        return Graded(
            Compared(
                torch.cat([compared.score for compared in seen]),
                torch.cat(cosines) if cosines else None,
            ),
            labels.repeat(self.passes),
            torch.cat([groups + apart * at for at in range(self.passes)]),
            self.passes,
        )


@dataclass(frozen=True)
class _Unregistered:
    """A model whose parts are registered elsewhere already, so that none is saved twice."""

    model: ConditionalModel
