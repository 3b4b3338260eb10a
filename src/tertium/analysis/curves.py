"""Curves of figures against what they depend on."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from tertium.drawing import COLOURS, MARKERS, blank_figure
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["low_shot_curves", "low_shot_gains"]


def low_shot_curves(
    averages: Mapping[str, Mapping[int, Sequence[float]]], *, floor: float | None = None
) -> "Figure":
    """STS average against the number of sentences, a line per recipe, a band of ± one sd.

    Args:
        averages: by recipe and number of sentences, one figure per seed.
        floor: the untrained model's average, drawn as a dashed line.
    """
    figure = blank_figure(7, 4.5)
    axes = figure.add_subplot()
    for at, (recipe, by_size) in enumerate(averages.items()):
        sizes = sorted(by_size)
        means = [fmean(by_size[size]) for size in sizes]
        spreads = [stdev(v) if len(v := by_size[size]) > 1 else 0.0 for size in sizes]
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        axes.plot(sizes, means, color=colour, marker=marker, label=recipe)
        low = [m - s for m, s in zip(means, spreads, strict=True)]
        high = [m + s for m, s in zip(means, spreads, strict=True)]
        axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    if floor is not None:
        axes.axhline(floor, color="grey", linestyle="--", label="untrained")
    _finish(axes, averages, label="STS average (Spearman x 100)")
    return figure


def low_shot_gains(
    averages: Mapping[str, Mapping[int, Sequence[float]]], *, baseline: str
) -> "Figure":
    """What each recipe gains on the baseline, seed by seed: miCSE, Figure 3, right.

    Args:
        averages: by recipe and number of sentences, one figure per seed, in the same order.
        baseline: the recipe that the others are compared with.
    """
    others = {recipe: by_size for recipe, by_size in averages.items() if recipe != baseline}
    if baseline not in averages or not others:
        raise TertiumError("A gain needs a recipe to compare, and another one to compare it with.")
    figure = blank_figure(7, 4)
    axes = figure.add_subplot()
    axes.axhline(0, color="grey", linestyle="--", label=baseline)
    for at, (recipe, by_size) in enumerate(others.items(), 1):
        sizes = sorted(set(by_size) & set(averages[baseline]))
        gains = {
            size: [a - b for a, b in zip(by_size[size], averages[baseline][size], strict=True)]
            for size in sizes
        }
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        means = [fmean(gains[size]) for size in sizes]
        axes.plot(sizes, means, color=colour, marker=marker, label=recipe)
        for size in sizes:
            low, high = min(gains[size]), max(gains[size])
            axes.plot([size, size], [low, high], color=colour, lw=1)
    _finish(axes, averages, label=f"difference from {baseline} (points)")
    return figure


def _finish(
    axes: "Axes", averages: Mapping[str, Mapping[int, Sequence[float]]], *, label: str
) -> None:
    sizes = sorted({size for by_size in averages.values() for size in by_size})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("sentences")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
