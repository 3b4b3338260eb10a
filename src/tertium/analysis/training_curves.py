"""What happened while models were trained."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from tertium.drawing import COLOURS, MARKERS, blank_figure, panels, shortened
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TRACED", "training_curves", "variant_figure"]

# What a log may hold, and what to call it.
TRACED = {
    "loss": "loss",
    "eval_score": "selection score",
    "eval_uniformity": "uniformity",
    "eval_effective_rank": "effective rank",
}


def training_curves(logs: Mapping[str, Sequence[Mapping[str, float]]]) -> "Figure":
    """Loss, selection score and measures of the space against the step, a line per run.

    Args:
        logs: by run, the entries of its log (``run/*/finished.json``).
    """
    known = [
        key
        for key in TRACED
        if any(key in entry and "step" in entry for log in logs.values() for entry in log)
    ]
    if not known:
        raise TertiumError("These logs hold neither a loss nor a measurement.")
    rows, columns = panels(len(known), columns=2)
    figure = blank_figure(3.6 * columns, 2.5 * rows + 0.25 + 0.2 * -(-len(logs) // 3))
    for place, key in enumerate(known, 1):
        axes = figure.add_subplot(rows, columns, place)
        for at, (name, log) in enumerate(logs.items()):
            points = [(e["step"], e[key]) for e in log if key in e and "step" in e]
            if not points:
                continue
            few = len(points) <= 40
            axes.plot(
                *zip(*points, strict=True),
                color=COLOURS[at % len(COLOURS)],
                marker=MARKERS[at % len(MARKERS)] if few else None,
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
    """Mean and standard deviation over seeds, a row per variant: JTCSE, Fig. 6; SEAVER, Fig. 5.

    Args:
        averages: by variant, a figure per seed.
        label: of the axis.
    """
    if not averages:
        raise TertiumError("There is no variant to draw.")
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
