"""What every objective is."""

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.types import Crossing, Graded, Term, ViewPair

__all__ = ["NonFiniteLossError", "Objective", "Tempered", "TripleObjective", "reduce_terms"]


class NonFiniteLossError(TertiumError):
    """A loss term became NaN or infinite."""


class Objective(nn.Module, ABC):
    """A loss made of named terms; it receives encoded views, never a model.

    Attributes:
        in_batch: other examples of the batch are its negatives, so that several processes must
            exchange their embeddings.
        two_encoders: the first view comes from an independent copy of the encoder.
        two_towers: it looks at the towers of a twin, each for itself.
        anchor_stride: only every so many-th example is needed as first view.
        crossing: the cross attention between two towers that it looks at, or None.
        mask_probability: share of tokens to hide in a further pass, or None for no such pass.
    """

    in_batch: ClassVar[bool] = False
    two_encoders: ClassVar[bool] = False
    two_towers: ClassVar[bool] = False
    anchor_stride: int = 1
    crossing: Crossing | None = None
    mask_probability: float | None = None

    @abstractmethod
    def terms(self, views: ViewPair) -> dict[str, Term]:
        """Unreduced values and weight of each term."""

    def attention_layers(self, depth: int) -> range:
        """Layers whose attention it looks at, of ``depth`` in all; none by default."""
        return range(0)

    def forward(self, views: ViewPair) -> dict[str, Float[Tensor, ""]]:
        """Weighted mean of each term; the loss is their sum."""
        return reduce_terms(self.terms(views))


class Tempered(Objective):
    """An objective whose cosines are divided by a temperature."""

    def __init__(self, *, temperature: float = 0.05) -> None:
        super().__init__()
        if not temperature > 0:
            raise TertiumError(f"temperature must be positive, got {temperature}.")
        self.temperature = temperature


class TripleObjective(Objective):
    """An objective for graded triples alone: two sentences, a condition and a label.

    Attributes:
        passes: how often each triple is read, with other dropout every time.
    """

    passes: ClassVar[int] = 1

    def terms(self, views: ViewPair) -> dict[str, Term]:
        """Views have no conditions."""
        raise TertiumError(f"{type(self).__name__} learns only from conditional data.")

    @abstractmethod
    def judge(self, graded: Graded) -> dict[str, Term]:
        """Unreduced values and weight of each term."""


def reduce_terms(terms: dict[str, Term]) -> dict[str, Float[Tensor, ""]]:
    """Weighted means, the one place where a loss is reduced; a non-finite one raises by name."""
    means = {name: term.weight * term.value.mean() for name, term in terms.items()}
    for name, mean in means.items():
        if not mean.isfinite():
            raise NonFiniteLossError(
                f"The loss term '{name}' is {mean.item()}. Lower the learning rate, or look for "
                "empty or broken texts in the last batch."
            )
    return means
