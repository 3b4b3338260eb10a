"""Explanations, and attention under a condition, as figures, pages and sentences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tertium.drawing import COLOURS, MARK, blank_figure
from tertium.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from tertium.explain import Explanation, Focus

__all__ = [
    "explanation_body",
    "explanation_figure",
    "explanation_html",
    "explanation_title",
    "focus_figure",
    "smallest_sentence",
    "strongest_words",
    "write_explanation_figure",
]

_TOWARDS, _AWAY = COLOURS[0], COLOURS[1]  # blue and vermilion
_MOST = 40  # maximum words of a text in a figure or table
_STEPS = (  # markers differ as well as colours
    ("o", COLOURS[0], "without the condition"),
    ("s", COLOURS[4], "with it"),
    ("D", COLOURS[2], "reallocated"),
)
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2rem }
.text { font-size: 1.15rem; line-height: 1.3 }
.word { display: inline-block; text-align: center; padding: .1em .3em; margin: 0 .1em .4em;
  border-radius: .2em; vertical-align: top }
.word small { display: block; font-size: .65em; font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
td, th { padding: .15rem .4rem; text-align: right } th { font-weight: 600 }
thead th { vertical-align: bottom } .long thead th { writing-mode: vertical-rl; text-align: left }
.note { color: #555; font-size: .9rem }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #16181c } .note { color: #aaa } }
"""


def explanation_title(found: Explanation) -> str:
    """The score, its scale and the condition."""
    low, high = found.scale
    shown = f"{found.score:.2f}" if (low, high) != (-1.0, 1.0) else f"{found.score:.3f}"
    respect = "" if found.condition is None else f", with respect to: {found.condition}"
    return f"{shown} on a scale from {low:g} to {high:g}{respect}"


def smallest_sentence(found: Explanation) -> str:
    """The smallest change, in words."""
    change = found.smallest
    if not change.removed:
        return f"No words were found whose removal moves the score by {change.by:g}."
    words = ", ".join(f"“{found.word(place)}” ({'AB'[place[0]]})" for place in change.removed)
    if change.reached:
        return f"Without {words} the score is {change.score:.2f}."
    return (
        f"No small set of words was found whose removal moves the score by {change.by:g}; "
        f"without {words} it is {change.score:.2f}."
    )


def strongest_words(found: Explanation, text: int, most: int) -> list[int]:
    """Positions of the words that contribute most to the score, in the order of the text."""
    values = found.contributions[text]
    order = sorted(range(len(values)), key=lambda at: -abs(values[at]))
    return sorted(order[:most])


def explanation_figure(found: Explanation) -> Figure:
    """Bars of contributions, a matrix of aligned words, and attention.

    Of a long text only the words that contribute most are shown.
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
        # A character that the font lacks is drawn as an empty box.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(temporary, dpi=150, bbox_inches="tight")


def _bars(axes: Axes, found: Explanation, text: int, places: list[int]) -> None:
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


def _alignment(axes: Axes, found: Explanation, places: list[list[int]]) -> None:
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


def _attention(axes: Axes, found: Explanation) -> None:
    """Attention that each word receives on average, relative to an even share."""
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


def _plain_labels(axes: Axes) -> None:
    """Do not interpret dollar signs as math."""
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)


def focus_figure(found: Focus) -> Figure:
    """Both matrices side by side, condition-relevant words marked: SEAVER, Figure 4."""
    size = 2.2 + 0.24 * len(found.words)
    figure = blank_figure(2 * size, 0.92 * size)
    panels = (("attention, last layer", found.attention), ("reallocated", found.weights))
    for place, (title, matrix) in enumerate(panels, 1):
        _draw(figure.add_subplot(1, 2, place), found, matrix, title)
    figure.suptitle(f"with respect to: {found.condition}")
    return figure


def _draw(axes: Axes, found: Focus, matrix: NDArray[Any], title: str) -> None:
    from matplotlib.patches import Rectangle

    shown = axes.imshow(matrix, cmap="Blues", interpolation="nearest")
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


def explanation_html(found: Explanation) -> str:
    """A page with coloured words and their contributions, the smallest change, and tables.

    It has no scripts or external resources, and all text is escaped.
    """
    title = _text(explanation_title(found))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{explanation_body(found)}
<p class="note">Model: {_text(found.model)}</p>
</body>
</html>
"""


def explanation_body(found: Explanation) -> str:
    """The content of :func:`explanation_html` between its title and the model's name."""
    parts = [
        *(_word_spans(found, text) for text in (0, 1)),
        f'<p class="note">{_legend(found)}</p>',
        f"<h2>The smallest change</h2>\n<p>{_text(smallest_sentence(found))}</p>",
        _alignment_table(found),
        "" if found.focus is None else _attention_table(found.focus),
        *(f'<p class="note">{_text(note)}</p>' for note in found.notes),
    ]
    return "\n".join(part for part in parts if part)


def _word_spans(found: Explanation, text: int) -> str:
    reach = max((abs(v) for values in found.contributions for v in values), default=0) or 1.0
    spans = " ".join(
        f'<span class="word" style="background: {_tint(value / reach)}">{_text(word.text)}'
        f"<small>{value:+z.2f}</small></span>"
        for word, value in zip(found.words[text], found.contributions[text], strict=True)
    )
    return f'<p class="text"><strong>{"AB"[text]}</strong> {spans}</p>'


def _legend(found: Explanation) -> str:
    colours = "Blue words (+) hold the texts together, orange ones (-) set them apart"
    if found.gradients is None:
        return f"{colours}: the drop or rise in score when the word is removed."
    first, second = found.gradients.baselines
    return (
        f"{colours}: integrated gradients from a neutral text, where the score is "
        f"{first:.2f} for A and {second:.2f} for B. They add up to the score within "
        f"{100 * found.gradients.error:.2f} %."
    )


def _alignment_table(found: Explanation) -> str:
    if found.alignment is None or not all(found.words):
        return ""
    rows, columns = (strongest_words(found, text, _MOST) for text in (0, 1))
    cells = [
        [f'<td style="background: {_tint(max(value, 0.0))}">{value:z.2f}</td>' for value in line]
        for line in ([found.alignment[row][column] for column in columns] for row in rows)
    ]
    table = _table(
        [found.word((1, at)) for at in columns], [found.word((0, at)) for at in rows], cells
    )
    return (
        f'<h2>Which words belong together</h2>\n{table}\n<p class="note">Cosines of word states in '
        "the last layer; words of A are rows.</p>"
    )


def _attention_table(focus: Focus) -> str:
    columns = focus.shares
    cells = [[f"<td>{values[at]:.2f}</td>" for values in columns] for at in range(len(focus.words))]
    labels = [
        f"{'AB'[at >= focus.split]} {word}{' *' if at in focus.marked else ''}"
        for at, word in enumerate(focus.words)
    ]
    names = ["without the condition", "with it", "reallocated"][: len(columns)]
    table = _table(names, labels, cells)
    return (
        f'<h2>Where attention goes</h2>\n{table}\n<p class="note">Attention that a word receives '
        "in the last layer; 1 is an even share. * exchanges most with the condition.</p>"
    )


def _table(head: Sequence[str], labels: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    tall = ' class="long"' if len(head) > 12 else ""
    top = "".join(f"<th>{_text(word)}</th>" for word in head)
    lines = "\n".join(
        f"<tr><th>{_text(label)}</th>{''.join(row)}</tr>"
        for label, row in zip(labels, rows, strict=True)
    )
    return (
        f'<div class="scroll"><table{tall}><thead><tr><th></th>{top}</tr></thead>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def _text(text: str) -> str:
    """Escaped, and without NUL, which HTML does not allow."""
    return escape(text.replace("\0", "\ufffd"))


def _tint(share: float) -> str:
    red, green, blue = (0, 114, 178) if share >= 0 else (213, 94, 0)
    return f"rgba({red}, {green}, {blue}, {0.55 * abs(share):.2f})"
