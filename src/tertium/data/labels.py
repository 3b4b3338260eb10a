"""Ordered labels as numbers, and numbers back as labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tertium.errors import TertiumError, unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["OrderedLabels", "read_labels"]


@dataclass(frozen=True)
class OrderedLabels:
    """K ordered labels at equal steps: STS-Regression, section 3.

    Named labels (contradiction < neutral < entailment) take the values ``low``, ``low + step``, …
    Grades are numbers between ``low`` and ``high`` already.

    >>> nli = OrderedLabels.named(["contradiction", "neutral", "entailment"])
    >>> nli.value("neutral"), nli.nearest([1.7])
    (1.0, ['entailment'])
    """

    low: float
    high: float
    step: float = 1.0
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high or self.step <= 0:
            raise TertiumError(
                f"labels need low < high and step > 0, got low {self.low:g}, high {self.high:g}, "
                f"step {self.step:g}."
            )
        steps = (self.high - self.low) / self.step
        if not math.isclose(steps, round(steps), rel_tol=1e-6):
            raise TertiumError(
                f"labels from {self.low:g} to {self.high:g} are not a whole number of steps of "
                f"{self.step:g}."
            )

    @classmethod
    def named(cls, names: Sequence[str], *, low: float = 0.0, step: float = 1.0) -> "OrderedLabels":
        """Labels in ascending order of similarity."""
        if len(names) < 2 or len(set(names)) != len(names):
            raise TertiumError(f"ordered labels need two or more different names, got {names}.")
        return cls(low, low + step * (len(names) - 1), step, tuple(names))

    def value(self, label: str | float) -> float:
        """The number of a label; a number must lie between ``low`` and ``high``."""
        if self.names is not None:
            if str(label) not in self.names:
                raise unknown_name("label", str(label), self.names)
            return self.low + self.step * self.names.index(str(label))
        value = float(label)
        if not self.low <= value <= self.high:
            raise TertiumError(
                f"The label {label} is not between {self.low:g} and {self.high:g}. Correct it, or "
                "set low and high in the recipe's labels."
            )
        return value

    def rounded(self, value: float) -> float:
        """The nearest step, halves upwards."""
        return self.low + self.step * math.floor((value - self.low) / self.step + 0.5)

    def classes(self, values: "ArrayLike") -> "NDArray[np.int64]":
        """Index of the step nearest to each value, from 0."""
        import numpy as np

        clipped = np.clip(np.asarray(values, dtype=float), self.low, self.high)
        return np.asarray(np.floor((clipped - self.low) / self.step + 0.5), dtype=np.int64)

    def nearest(self, values: "ArrayLike") -> list[str] | list[float]:
        """The label nearest to each value: its name, or the number of its step."""
        classes = self.classes(values)
        if self.names is not None:
            return [self.names[at] for at in classes]
        return [float(self.low + self.step * at) for at in classes]

    def to_json(self) -> dict[str, Any]:
        """The labels as :func:`read_labels` reads them."""
        names = {} if self.names is None else {"names": list(self.names)}
        return {"low": self.low, "high": self.high, "step": self.step, **names}

    def check_threshold(self, threshold: float) -> None:
        """Refuse a dead zone wider than half a step, in which labels could not be told apart."""
        if not 0 <= threshold <= self.step / 2:
            raise TertiumError(
                f"threshold {threshold:g} must be between 0 and half the labels' step "
                f"({self.step / 2:g}): beyond it two neighbouring labels share a dead zone."
            )


def read_labels(values: Any, file: Path) -> OrderedLabels:
    """Labels as ``file`` describes them: low, high and perhaps step and names."""
    try:
        names = values.get("names")
        return OrderedLabels(**{**values, "names": None if names is None else tuple(names)})
    except (TertiumError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise TertiumError(f"{file}: its labels are unusable: {error}") from error
