"""Figures with their intervals, side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tertium.drawing import COLOURS, MARKERS, blank_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Estimate", "interval_figure"]

Estimate = tuple[float, tuple[float, float] | None]  # a figure, and its interval if there is one


def interval_figure(
    estimates: Mapping[str, Mapping[str, Estimate]], *, label: str = "Spearman x 100"
) -> "Figure":
    """A row per data set, in it a point with its interval per model.

    Args:
        estimates: by data set and model.
        label: of the axis.
    """
    names = list(dict.fromkeys(name for by_model in estimates.values() for name in by_model))
    figure = blank_figure(6.6, 0.9 + len(estimates) * (0.26 + 0.13 * len(names)))
    axes = figure.add_subplot()
    height = 0.7 / len(names)
    for at, name in enumerate(names):
        colour, marker = COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)]
        shown = False
        for row, by_model in enumerate(estimates.values()):
            if name not in by_model:
                continue
            value, interval = by_model[name]
            y = row + (at - (len(names) - 1) / 2) * height
            if interval is not None:
                axes.plot(interval, [y, y], color=colour, lw=1.6, solid_capstyle="butt")
            label_once = None if shown else shortened(name)
            axes.scatter([value], [y], color=colour, marker=marker, s=26, label=label_once)
            shown = True
    axes.set_yticks(range(len(estimates)), [shortened(name) for name in estimates])
    axes.set_ylim(len(estimates) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(estimates)):
        axes.axhline(row - 0.5, color="0.9", lw=0.8, zorder=0)
    figure.legend(frameon=False, loc="outside upper left", ncols=3)
    return figure
