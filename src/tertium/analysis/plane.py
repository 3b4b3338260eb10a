"""Models as points: alignment against uniformity, and CLS energy layer by layer and against STS."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tertium.drawing import blank_figure, series_style, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Place", "alignment_uniformity_plane", "energy_against_scores", "energy_curves"]


@dataclass(frozen=True)
class Place:
    """Where a model lies in the plane.

    Attributes:
        alignment: mean squared distance of pairs that mean the same.
        uniformity: log mean Gaussian potential of all sentences.
        score: an STS figure to write beside the name, times 100.
    """

    alignment: float
    uniformity: float
    score: float | None = None


def alignment_uniformity_plane(places: Mapping[str, Place]) -> "Figure":
    """Alignment against uniformity, lower left is better on both: JTCSE, Figure 7."""
    figure = blank_figure(6.2, 4.2)
    axes = figure.add_subplot()
    for at, (name, place) in enumerate(places.items()):
        label = shortened(name)
        if place.score is not None:
            label += f" ({place.score:.1f})"
        _point(axes, at, place.uniformity, place.alignment, label)
    axes.set_xlabel("uniformity  (left: spread over the whole sphere)")
    axes.set_ylabel("alignment  (down: same meaning, same place)")
    _room(axes, width=0.4, height=0.1)
    return figure


def energy_curves(energies: Mapping[str, Sequence[float]]) -> "Figure":
    """CLS energy of each layer, a line per model."""
    figure = blank_figure(6.2, 3.6)
    axes = figure.add_subplot()
    deepest = max(len(energy) for energy in energies.values())
    for at, (name, energy) in enumerate(energies.items()):
        colour, marker = series_style(at)
        layers = range(1, len(energy) + 1)
        axes.plot(layers, energy, color=colour, marker=marker, ms=5, label=shortened(name))
    step = max(1, deepest // 12)
    axes.set_xticks(range(1, deepest + 1, step))
    axes.set_xlabel("layer")
    axes.set_ylabel("CLS energy")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def energy_against_scores(points: Mapping[str, tuple[float, float]]) -> "Figure":
    """STS figure against mean CLS energy, a point per model: JTCSE, Figure 10.

    Args:
        points: by model, its energy and its figure times 100.
    """
    figure = blank_figure(6.2, 3.8)
    axes = figure.add_subplot()
    for at, (name, (energy, score)) in enumerate(points.items()):
        _point(axes, at, energy, score, shortened(name))
    axes.set_xlabel("CLS energy, the mean of all layers")
    axes.set_ylabel("Spearman x 100")
    _room(axes, width=0.05, height=5.0)
    return figure


def _point(axes: "Axes", at: int, x: float, y: float, label: str) -> None:
    colour, marker = series_style(at)
    axes.scatter([x], [y], color=colour, marker=marker, s=70, label=label, zorder=3)


def _room(axes: "Axes", *, width: float, height: float) -> None:
    """Points away from the edges, their names beside the picture, and a span worth looking at.

    Without a least width and height, models that hardly differ would lie worlds apart.
    """
    axes.margins(0.2)
    for limits, least, change in (
        (axes.get_xlim(), width, axes.set_xlim),
        (axes.get_ylim(), height, axes.set_ylim),
    ):
        middle, span = (limits[0] + limits[1]) / 2, limits[1] - limits[0]
        if span < least:
            change(middle - least / 2, middle + least / 2)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
