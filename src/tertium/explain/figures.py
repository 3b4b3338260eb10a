"""Explanations and attention under a condition as pictures, and in a sentence."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from tertium.drawing import COLOURS, MARK, blank_figure
from tertium.explain import Explanation, Focus
from tertium.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "explanation_figure",
    "explanation_title",
    "focus_figure",
    "smallest_sentence",
    "strongest_words",
    "write_explanation_figure",
]

_TOWARDS, _AWAY = COLOURS[0], COLOURS[1]  # blue and vermilion
_MOST = 40  # words of a text that a picture holds
_STEPS = (  # the shape says the same as the colour
    ("o", COLOURS[0], "without the condition"),
    ("s", COLOURS[4], "with it"),
    ("D", COLOURS[2], "reallocated"),
)


def explanation_title(found: Explanation) -> str:
    """The score, its scale and the respect in which texts were compared."""
    low, high = found.scale
    shown = f"{found.score:.2f}" if (low, high) != (-1.0, 1.0) else f"{found.score:.3f}"
    respect = "" if found.condition is None else f", with respect to: {found.condition}"
    return f"{shown} on a scale from {low:g} to {high:g}{respect}"


def smallest_sentence(found: Explanation) -> str:
    """What the smallest change is, in words."""
    change = found.smallest
    if not change.removed:
        return f"No words were found without which the score moves by {change.by:g}."
    words = ", ".join(f"“{found.word(place)}” ({'AB'[place[0]]})" for place in change.removed)
    if change.reached:
        return f"Without {words} the score is {change.score:.2f}."
    return (
        f"No small set of words was found without which the score moves by {change.by:g}; "
        f"without {words} it is {change.score:.2f}."
    )


def strongest_words(found: Explanation, text: int, most: int) -> list[int]:
    """Places of the words that contribute most to the score, in the order of the text."""
    values = found.contributions[text]
    order = sorted(range(len(values)), key=lambda at: -abs(values[at]))
    return sorted(order[:most])


def explanation_figure(found: Explanation) -> "Figure":
    """Contributions of words as bars, which words belong together, and where attention goes.

    A long text is shown by the words that contribute most.
    """
    places = [strongest_words(found, text, _MOST) for text in (0, 1)]
    rows = 1 if found.focus is None else 2
    tall = 1.8 + 0.25 * max(8, *map(len, places))
    figure = blank_figure(11.5, tall + (0 if found.focus is None else 3.2))
    ratios = (tall,) if found.focus is None else (tall, 3.2)
    grid = figure.add_gridspec(rows, 3, width_ratios=(1, 1, 1.5), height_ratios=ratios)
    for text in (0, 1):
        _bars(figure.add_subplot(grid[0, text]), found, text, places[text])
    _alignment(figure.add_subplot(grid[0, 2]), found, places)
    if found.focus is not None:
        _attention(figure.add_subplot(grid[1, :]), found)
    figure.suptitle(explanation_title(found)).set_parse_math(False)
    return figure


def write_explanation_figure(found: Explanation, path: Path) -> None:
    """Draw into a PNG or SVG file."""
    figure = explanation_figure(found)
    with atomic_path(path) as temporary, warnings.catch_warnings():
        # A sign that the font has not is an empty box.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(temporary, dpi=150, bbox_inches="tight")


def _bars(axes: "Axes", found: Explanation, text: int, places: list[int]) -> None:
    every = [0.0, *(value for side in found.contributions for value in side)]
    room = 0.3 * (max(every) - min(every) or 1.0)  # for the numbers beside the bars
    values = [found.contributions[text][at] for at in places]
    rows = range(len(places))
    bars = axes.barh(rows, values, color=[_TOWARDS if value >= 0 else _AWAY for value in values])
    axes.bar_label(bars, [f"{value:+z.2f}" for value in values], padding=2, fontsize=7)
    axes.set_yticks(rows, [found.word((text, at)) for at in places], fontsize=8)
    axes.set_ylim(max(len(places), 1) - 0.5, -0.5)
    axes.set_xlim(min(every) - room * (min(every) < 0), max(every) + room)
    axes.axvline(0, color="0.3", lw=0.8)
    axes.set_title(f"text {'AB'[text]}", fontsize=10)
    meaning = (
        "drop in score without the word" if found.gradients is None else "integrated gradients"
    )
    axes.set_xlabel(meaning, fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.locator_params(axis="x", nbins=5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    _plain_labels(axes)


def _alignment(axes: "Axes", found: Explanation, places: list[list[int]]) -> None:
    if found.alignment is None or not all(places):
        axes.axis("off")
        reason = found.notes[0] if found.notes else "One text has no word."
        axes.text(0, 0.5, reason, wrap=True, fontsize=8).set_parse_math(False)
        return
    matrix = np.array(found.alignment)[np.ix_(*places)]
    shown = axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(places[0])), [found.word((0, at)) for at in places[0]], fontsize=8)
    labels = [found.word((1, at)) for at in places[1]]
    axes.set_xticks(range(len(places[1])), labels, fontsize=8, rotation=90)
    axes.set_title("words of A (rows) and B: cosine", fontsize=10)
    if matrix.size <= 150:
        for (row, column), value in np.ndenumerate(matrix):
            ink = "white" if value > 0.5 else "0.2"
            axes.text(column, row, f"{value:z.2f}", ha="center", va="center", fontsize=7, color=ink)
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)
    _plain_labels(axes)


def _attention(axes: "Axes", found: Explanation) -> None:
    """What each word receives from the others, on average, relative to an even share."""
    focus = found.focus
    assert focus is not None
    for (marker, colour, label), shares in zip(_STEPS, focus.shares, strict=False):
        axes.plot(shares, marker, color=colour, ms=5, alpha=0.8, label=label)
    axes.set_xticks(range(len(focus.words)), focus.words, rotation=90, fontsize=8)
    axes.axvline(focus.split - 0.5, color="0.35", lw=1.2)
    axes.axhline(1, color="0.6", lw=0.8, ls=":")
    axes.set_title("attention that a word receives; 1 is an even share", fontsize=10)
    axes.tick_params(axis="y", labelsize=7)
    axes.legend(fontsize=7)
    _plain_labels(axes)


def _plain_labels(axes: "Axes") -> None:
    """A dollar sign is a dollar sign."""
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)


def focus_figure(found: Focus) -> "Figure":
    """Both matrices side by side, condition-relevant words marked: SEAVER, Figure 4."""
    size = 2.2 + 0.24 * len(found.words)
    figure = blank_figure(2 * size, 0.92 * size)
    panels = (("attention, last layer", found.attention), ("reallocated", found.weights))
    for place, (title, matrix) in enumerate(panels, 1):
        _draw(figure.add_subplot(1, 2, place), found, matrix, title)
    figure.suptitle(f"with respect to: {found.condition}")
    return figure


def _draw(axes: "Axes", found: Focus, matrix: Tensor, title: str) -> None:
    from matplotlib.patches import Rectangle

    shown = axes.imshow(matrix.numpy(), cmap="Blues", interpolation="nearest")
    places = range(len(found.words))
    axes.set_xticks(places, found.words, rotation=90, fontsize=8)
    axes.set_yticks(places, found.words, fontsize=8)
    for at in found.marked:
        for label in (axes.get_xticklabels()[at], axes.get_yticklabels()[at]):
            label.set(color=MARK, fontweight="bold")
        high = len(found.words)
        axes.add_patch(Rectangle((at - 0.5, -0.5), 1, high, fill=False, edgecolor=MARK, lw=1.2))
    axes.axhline(found.split - 0.5, color="0.35", lw=1.2)
    axes.axvline(found.split - 0.5, color="0.35", lw=1.2)
    axes.set_title(title, fontsize=10)
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)
