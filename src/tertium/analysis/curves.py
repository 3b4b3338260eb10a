"""Curves of figures against what they depend on."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from tertium.analysis.drawing import blank_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["low_shot_curves"]

# Okabe & Ito's colours, which everyone can tell apart, with a marker each for print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"


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
        colour, marker = _COLOURS[at % len(_COLOURS)], _MARKERS[at % len(_MARKERS)]
        axes.plot(sizes, means, color=colour, marker=marker, label=recipe)
        low = [m - s for m, s in zip(means, spreads, strict=True)]
        high = [m + s for m, s in zip(means, spreads, strict=True)]
        axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    if floor is not None:
        axes.axhline(floor, color="grey", linestyle="--", label="untrained")
    sizes = sorted({size for by_size in averages.values() for size in by_size})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("sentences")
    axes.set_ylabel("STS average (Spearman x 100)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
