"""What attention-driven dropout would leave out, as a picture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tertium.analysis.augmentation import Augmented
from tertium.drawing import COLOURS, blank_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["dropped_figure"]

_KEPT, _GOES, _PROTECTED = COLOURS[0], COLOURS[1], "0.7"


def dropped_figure(found: Mapping[str, Augmented]) -> "Figure":
    """Attention that each token receives, and the order in which ADD would drop them.

    Args:
        found: by aggregation, of the same sentence.
    """
    most = max(len(augmented.tokens) for augmented in found.values())
    figure = blank_figure(3.4 * len(found) + 0.6, 0.21 * most + 1.2)
    for place, (name, augmented) in enumerate(found.items(), 1):
        axes = figure.add_subplot(1, len(found), place)
        _bars(axes, augmented)
        axes.set_title(name)
        axes.set_xlabel("attention received")
    figure.legend(
        handles=_legend(), frameon=False, loc="outside lower left", ncols=3, handlelength=1.2
    )
    return figure


def _bars(axes: "Axes", augmented: Augmented) -> None:
    """A bar per token; protected ones are cut at the edge, for CLS would dwarf all others."""
    order = {step.position: number for number, step in enumerate(augmented.steps, 1)}
    may = [s for s, ok in zip(augmented.scores, augmented.droppable, strict=True) if ok]
    edge = 1.25 * max(may or augmented.scores)
    places = range(len(augmented.tokens))
    colours = [
        _GOES if at in order else _KEPT if augmented.droppable[at] else _PROTECTED for at in places
    ]
    axes.barh(places, [min(s, edge) for s in augmented.scores], color=colours, height=0.72)
    for at, score in enumerate(augmented.scores):
        if at in order:
            axes.text(score, at, f" {order[at]}.", va="center", fontsize=8, fontweight="bold")
        elif score > edge:
            text = f"{score:.1f} "
            axes.text(edge, at, text, va="center", ha="right", fontsize=7)
    axes.set_xlim(0, edge)
    axes.set_yticks(places, augmented.tokens, fontsize=8)
    axes.set_ylim(len(augmented.tokens) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.25)


def _legend() -> list[object]:
    from matplotlib.patches import Patch

    return [
        Patch(color=_GOES, label="goes, in this order"),
        Patch(color=_KEPT, label="stays"),
        Patch(color=_PROTECTED, label="always stays"),
    ]
