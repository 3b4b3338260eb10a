"""Where attention goes under a condition, as a picture."""

from typing import TYPE_CHECKING

from torch import Tensor

from tertium.drawing import blank_figure
from tertium.explain import Focus, focus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Focus", "focus", "focus_figure"]

_MARK = "#B24700"


def focus_figure(found: Focus) -> "Figure":
    """Both matrices side by side, condition-relevant words marked: SEAVER, Figure 4."""
    size = 2.2 + 0.24 * len(found.words)
    figure = blank_figure(2 * size, 0.92 * size)
    panels = (("attention, last layer", found.attention), ("reallocated", found.weights))
    for place, (title, matrix) in enumerate(panels, 1):
        _draw(figure.add_subplot(1, 2, place), found, matrix, title)
    figure.suptitle(f"as to: {found.condition}")
    return figure


def _draw(axes: "Axes", found: Focus, matrix: Tensor, title: str) -> None:
    from matplotlib.patches import Rectangle

    shown = axes.imshow(matrix.numpy(), cmap="Blues", interpolation="nearest")
    places = range(len(found.words))
    axes.set_xticks(places, found.words, rotation=90, fontsize=8)
    axes.set_yticks(places, found.words, fontsize=8)
    for at in found.marked:
        for label in (axes.get_xticklabels()[at], axes.get_yticklabels()[at]):
            label.set(color=_MARK, fontweight="bold")
        high = len(found.words)
        axes.add_patch(Rectangle((at - 0.5, -0.5), 1, high, fill=False, edgecolor=_MARK, lw=1.2))
    axes.axhline(found.split - 0.5, color="0.35", lw=1.2)
    axes.axvline(found.split - 0.5, color="0.35", lw=1.2)
    axes.set_title(title, fontsize=10)
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)
