"""Scores against what people say."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.drawing import blank_figure, panels, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["gold_scatter", "running_medians"]

_STEPS = 10
_FEWEST = 3  # pairs, or there is no median to speak of


def running_medians(
    gold: ArrayLike, predicted: ArrayLike, *, steps: int = _STEPS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Medians of both columns in equal steps of the first; steps with few rows are left out."""
    x, y = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    edges = np.linspace(x.min(), x.max(), steps + 1)
    step = np.clip(np.digitize(x, edges[1:-1]), 0, steps - 1)
    kept = [at for at in range(steps) if (step == at).sum() >= _FEWEST]
    medians = [(np.median(x[step == at]), np.median(y[step == at])) for at in kept]
    found = np.array(medians, dtype=float).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def gold_scatter(
    gold: ArrayLike,
    predicted: Mapping[str, ArrayLike],
    *,
    correlations: Mapping[str, float] | None = None,
    label: str = "cosine",
) -> "Figure":
    """Each pair's cosine against its grade by people, a panel per model: miCSE, Figure 5.

    Args:
        gold: grades of the pairs.
        predicted: by model, what it says of the same pairs.
        correlations: by model, to be written above its panel.
        label: what the models say.
    """
    rows, columns = panels(len(predicted))
    figure = blank_figure(3.1 * columns + 0.6, 2.9 * rows + 0.3)
    grades = np.asarray(gold, dtype=float)
    first = None
    for place, (name, values) in enumerate(predicted.items(), 1):
        axes = figure.add_subplot(rows, columns, place, sharey=first)
        first = first or axes
        size = 14 if len(grades) <= 1000 else 6
        axes.scatter(
            grades, np.asarray(values), c=grades, cmap="viridis", s=size, alpha=0.55, linewidths=0
        )
        axes.plot(*running_medians(grades, values), color="black", lw=1.6, label="median")
        title = shortened(name)
        if correlations is not None:
            title += f"\nSpearman {100 * correlations[name]:.1f}"
        axes.set_title(title)
        axes.grid(alpha=0.25)
        if place == 1:
            axes.legend(frameon=False, loc="upper left")
    figure.supxlabel("grade by people", fontsize=9)
    figure.supylabel(label, fontsize=9)
    return figure
