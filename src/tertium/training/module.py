"""Encoder and objectives as one module, so that a checkpoint holds everything that learns."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from tertium.encoders import Encoder
from tertium.objectives import Objective
from tertium.types import Encoded, ViewPair

__all__ = ["TrainingModule", "WeightedObjective"]


@dataclass(frozen=True)
class WeightedObjective:
    """An objective and the weight of its terms in the loss."""

    objective: Objective
    weight: float = 1.0


class TrainingModule(nn.Module):
    """One merged forward pass for all sides of a batch, then every objective's terms.

    Args:
        encoder: what is trained.
        objectives: by name, with their weights.
        sides: texts per example.
    """

    def __init__(
        self, encoder: Encoder, objectives: Mapping[str, WeightedObjective], *, sides: int
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.sides = sides
        self.model = encoder.model
        self.objectives = nn.ModuleDict({n: o.objective for n, o in objectives.items()})
        self._weights = {name: o.weight for name, o in objectives.items()}

    def forward(self, labels: Tensor | None = None, **features: Tensor) -> dict[str, Tensor]:
        """The loss, and each weighted term under its name."""
        encoded = self.encoder.forward(features)
        first, second, *others = (_rows(encoded, at, self.sides) for at in range(self.sides))
        views = ViewPair(first, second, others[0] if others else None, labels)
        terms = {
            term: self._weights[name] * value
            for name, objective in self.objectives.items()
            for term, value in objective(views).items()
        }
        return {"loss": sum(terms.values(), start=encoded.embedding.new_zeros(())), **terms}


def _rows(encoded: Encoded, at: int, sides: int) -> Encoded:
    """One side of a merged batch."""
    n = len(encoded.embedding) // sides
    rows = slice(at * n, (at + 1) * n)
    return Encoded(
        embedding=encoded.embedding[rows],
        tokens=encoded.tokens[rows],
        mask=encoded.mask[rows],
        attention=None if encoded.attention is None else encoded.attention[:, rows],
        layers=encoded.layers,
    )
