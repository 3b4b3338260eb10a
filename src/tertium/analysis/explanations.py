"""An explanation of a score as a picture and as a page."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from tertium.analysis.drawing import blank_figure
from tertium.encoders.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["explanation_figure", "explanation_html"]

_TOWARDS, _AWAY = "#0072B2", "#D55E00"  # Okabe & Ito's blue and vermilion
_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2rem }
.text { font-size: 1.15rem } .word { padding: .1em .25em; border-radius: .2em }
table { border-collapse: collapse; font-size: .85rem } td, th { padding: .15rem .4rem }
th { font-weight: 600; text-align: right } thead th { writing-mode: vertical-rl; text-align: left }
.note { color: #555; font-size: .9rem }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #16181c } .note { color: #aaa } }
"""


def explanation_figure(found: Explanation) -> "Figure":
    """Contributions of all words as bars, and which words of both texts belong together."""
    longest = max(len(words) for words in found.words)
    figure = blank_figure(11, 1.6 + 0.28 * max(longest, 8))
    grid = figure.add_gridspec(1, 3, width_ratios=(1, 1, 1.4))
    reach = max((abs(v) for values in found.occlusion for v in values), default=0) or 1.0
    for side in (0, 1):
        _bars(figure.add_subplot(grid[side]), found, side, reach)
    _alignment(figure.add_subplot(grid[2]), found)
    respect = "" if found.condition is None else f", as to: {found.condition}"
    figure.suptitle(f"{found.score:.2f} on {found.scale[0]:g}..{found.scale[1]:g}{respect}")
    return figure


def explanation_html(found: Explanation) -> str:
    """A page that needs nothing else: words in colours, the smallest change, the alignment."""
    reach = max((abs(v) for values in found.occlusion for v in values), default=0) or 1.0
    texts = "\n".join(
        f'<p class="text">{_coloured(words, values, reach)}</p>'
        for words, values in zip(found.words, found.occlusion, strict=True)
    )
    respect = "" if found.condition is None else f", as to: {escape(found.condition)}"
    title = f"{found.score:.2f} on {found.scale[0]:g} to {found.scale[1]:g}{respect}"
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
{texts}
<p class="note">Blue words hold the texts together, orange ones set them apart: by how much the
score falls or rises without the word. The strongest is {reach:.2f}.</p>
<h2>The smallest change</h2>
<p>{escape(smallest_sentence(found))}</p>
<h2>Which words belong together</h2>
{_table(found)}
<p class="note">Cosines of the words' states in the last layer.</p>
</body>
</html>
"""


def smallest_sentence(found: Explanation) -> str:
    """What the smallest change is, in words."""
    change = found.smallest
    if not change.removed:
        return "Leaving single words out does not move the score."
    words = ", ".join(f"“{found.word(place)}” ({'AB'[place[0]]})" for place in change.removed)
    if change.reached:
        return f"Without {words} the score is {change.score:.2f}."
    return (
        f"No few words move the score by {found.moved:g}; without {words} it is {change.score:.2f}."
    )


def _bars(axes: "Axes", found: Explanation, side: int, reach: float) -> None:
    values = found.occlusion[side]
    places = range(len(values))
    axes.barh(places, values, color=[_TOWARDS if value >= 0 else _AWAY for value in values])
    axes.set_yticks(places, found.words[side], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(-1.05 * reach, 1.05 * reach)
    axes.axvline(0, color="0.3", lw=0.8)
    axes.set_title(f"text {'AB'[side]}", fontsize=10)
    axes.set_xlabel("score falls by, without the word", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _alignment(axes: "Axes", found: Explanation) -> None:
    shown = axes.imshow(_filled(found.alignment), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_yticks(range(len(found.words[0])), found.words[0], fontsize=8)
    axes.set_xticks(range(len(found.words[1])), found.words[1], fontsize=8, rotation=90)
    axes.set_title("cosine of words", fontsize=10)
    axes.figure.colorbar(shown, ax=axes, fraction=0.046, pad=0.02).ax.tick_params(labelsize=7)


def _filled(alignment: Tensor) -> np.ndarray:
    """A picture needs at least one cell."""
    return alignment.numpy() if alignment.numel() else np.zeros((1, 1))


def _coloured(words: tuple[str, ...], values: tuple[float, ...], reach: float) -> str:
    return " ".join(
        f'<span class="word" style="background: {_tint(value / reach)}" '
        f'title="{value:+.3f}">{escape(word)}</span>'
        for word, value in zip(words, values, strict=True)
    )


def _tint(share: float) -> str:
    red, green, blue = (0, 114, 178) if share >= 0 else (213, 94, 0)
    return f"rgba({red}, {green}, {blue}, {0.6 * abs(share):.2f})"


def _table(found: Explanation) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in found.words[1])
    rows = "\n".join(
        f"<tr><th>{escape(word)}</th>"
        + "".join(
            f'<td style="background: {_tint(max(value, 0.0))}">{value:.2f}</td>' for value in row
        )
        + "</tr>"
        for word, row in zip(found.words[0], found.alignment.tolist(), strict=True)
    )
    return f"<table><thead><tr><th></th>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
