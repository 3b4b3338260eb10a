"""What every task is, and what it gives back."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tertium.data.benchmarks import Loaded
from tertium.evaluation.context import Context
from tertium.evaluation.metrics import (
    bootstrap_spearman,
    percentile_interval,
    spearman,
    two_sided_p,
)

__all__ = [
    "Outcome",
    "Task",
    "against_baseline",
    "compare_samples",
    "defined",
    "hundred",
    "interval",
    "leak_free",
]

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


def against_baseline(
    name: str,
    gold: NDArray[np.float64],
    predicted: NDArray[np.float64],
    other: NDArray[np.float64],
    samples: Samples,
    counts: NDArray[np.int32],
) -> tuple[dict[str, Any], Samples]:
    """The ``baseline`` entry of a correlation, and the differences on the same resamples.

    Args:
        name: of the baseline.
        gold: what people say.
        predicted: what the model says.
        other: what the baseline says.
        samples: the model's correlations on the resamples.
        counts: the resamples.
    """
    differences = samples - bootstrap_spearman(gold, other, counts)
    score = spearman(gold, other)
    entry = compare_samples(name, score, spearman(gold, predicted) - score, differences)
    return entry, differences


def leak_free(
    gold: NDArray[np.float64], predicted: NDArray[np.float64], kept: NDArray[np.bool_]
) -> dict[str, Any]:
    """The ``leak_free`` entry: the correlation over the pairs that are left."""
    return {
        "spearman": hundred(spearman(gold[kept], predicted[kept])),
        "pairs": int(kept.sum()),
        "removed": int((~kept).sum()),
    }
