"""Curves of low-shot studies and training runs, and variants over seeds."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from tertium.drawing import COLOURS, blank_figure, panels, series_style, shortened
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TRACED", "low_shot_curves", "low_shot_gains", "training_curves", "variant_figure"]

# Keys of a log, and their titles.
TRACED = {
    "loss": "loss",
    "eval_score": "selection score",
    "eval_uniformity": "uniformity",
    "eval_effective_rank": "effective rank",
}


def low_shot_curves(
    averages: Mapping[str, Mapping[int, Sequence[float]]], *, floor: float | None = None
) -> "Figure":
    """STS average by number of sentences, one line per recipe with a band of ± one sd.

    Args:
        averages: averages by recipe and number of sentences, one per seed.
        floor: the untrained model's average, drawn as a dashed line.
    """
    figure = blank_figure(7, 4.5)
    axes = figure.add_subplot()
    for at, (recipe, by_size) in enumerate(averages.items()):
        sizes = sorted(by_size)
        means = [fmean(by_size[size]) for size in sizes]
        spreads = [stdev(v) if len(v := by_size[size]) > 1 else 0.0 for size in sizes]
        colour, marker = series_style(at)
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
    """Gain of each recipe over the baseline, seed by seed: miCSE, Figure 3, right.

    Args:
        averages: averages by recipe and number of sentences, one per seed, in the same order.
        baseline: the recipe that the others are compared with.
    """
    others = {recipe: by_size for recipe, by_size in averages.items() if recipe != baseline}
    if baseline not in averages or not others:
        raise TertiumError("A gain needs the baseline and at least one other recipe.")
    figure = blank_figure(7, 4)
    axes = figure.add_subplot()
    axes.axhline(0, color="grey", linestyle="--", label=baseline)
    for at, (recipe, by_size) in enumerate(others.items(), 1):
        sizes = sorted(set(by_size) & set(averages[baseline]))
        gains = {
            size: [a - b for a, b in zip(by_size[size], averages[baseline][size], strict=True)]
            for size in sizes
        }
        colour, marker = series_style(at)
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


def training_curves(logs: Mapping[str, Sequence[Mapping[str, float]]]) -> "Figure":
    """Loss, selection score and measures of the space by step, one line per run.

    Args:
        logs: entries of each run's log (``run/*/finished.json``).
    """
    known = [
        key
        for key in TRACED
        if any(key in entry and "step" in entry for log in logs.values() for entry in log)
    ]
    if not known:
        raise TertiumError("These logs contain neither a loss nor an evaluation.")
    rows, columns = panels(len(known), columns=2)
    figure = blank_figure(3.6 * columns, 2.5 * rows + 0.25 + 0.2 * -(-len(logs) // 3))
    for place, key in enumerate(known, 1):
        axes = figure.add_subplot(rows, columns, place)
        for at, (name, log) in enumerate(logs.items()):
            points = [(e["step"], e[key]) for e in log if key in e and "step" in e]
            if not points:
                continue
            colour, marker = series_style(at)
            axes.plot(
                *zip(*points, strict=True),
                color=colour,
                marker=marker if len(points) <= 40 else None,
                ms=3.5,
                lw=1.2,
                label=shortened(name) if key == known[0] else None,
            )
        axes.set_title(TRACED[key])
        axes.set_xlabel("step")
        axes.locator_params(axis="x", integer=True)
        axes.grid(alpha=0.25)
    figure.legend(frameon=False, loc="outside upper left", ncols=3)
    return figure


def variant_figure(
    averages: Mapping[str, Sequence[float]], *, label: str = "Spearman x 100"
) -> "Figure":
    """Mean and standard deviation over seeds, one row per variant: JTCSE, Fig. 6; SEAVER, Fig. 5.

    Args:
        averages: results of each variant, one per seed.
        label: label of the axis.
    """
    if not averages:
        raise TertiumError("There are no variants to draw.")
    figure = blank_figure(6.2, 0.8 + 0.3 * len(averages))
    axes = figure.add_subplot()
    for row, values in enumerate(averages.values()):
        axes.scatter(values, [row] * len(values), s=16, color=COLOURS[5], zorder=2)
        spread = stdev(values) if len(values) > 1 else 0.0
        axes.errorbar(
            fmean(values), row, xerr=spread, color=COLOURS[0], marker="o", ms=6, capsize=3, zorder=3
        )
    axes.set_yticks(range(len(averages)), [shortened(name, length=40) for name in averages])
    axes.set_ylim(len(averages) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(alpha=0.25)
    axes.tick_params(axis="y", length=0)
    return figure
