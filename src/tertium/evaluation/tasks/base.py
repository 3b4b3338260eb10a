"""What every task is, and what it gives back."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tertium.data.benchmarks import Loaded
from tertium.evaluation.context import Context
from tertium.evaluation.metrics import percentile_interval, two_sided_p

__all__ = ["Outcome", "Task", "compare_samples", "defined", "hundred", "interval"]

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """A task's figures before they are labelled.

    ``samples`` are the headline figure's bootstrap values and ``differences`` those of the paired
    difference from the baseline; the suite's average is formed from them.
    """

    values: dict[str, Any]
    protocol: str
    data: Loaded
    samples: Samples | None = None
    differences: Samples | None = None


class Task(Protocol):
    """One benchmark task."""

    @property
    def name(self) -> str:
        """Key in ``TASKS``."""
        ...

    @property
    def headline(self) -> str:
        """The figure that a suite averages."""
        ...

    def run(self, context: Context) -> Outcome:
        """Load the data, embed, score."""
        ...


def defined(value: float) -> float | None:
    """The value itself; None for NaN, which JSON does not know."""
    return None if np.isnan(value) else float(value)


def hundred(value: float) -> float | None:
    """A correlation or accuracy times 100; None for NaN, which JSON does not know."""
    return defined(100.0 * value)


def interval(samples: Samples) -> list[float] | None:
    """The 95 % interval of bootstrap samples, times 100."""
    bounds = percentile_interval(samples)
    return None if bounds is None else [100 * bounds[0], 100 * bounds[1]]


def compare_samples(name: str, value: float, difference: float, samples: Samples) -> dict[str, Any]:
    """The ``baseline`` entry beside a figure."""
    return {
        "model": name,
        "value": hundred(value),
        "difference": hundred(difference),
        "interval": interval(samples),
        "p_value": defined(two_sided_p(samples)),
    }
