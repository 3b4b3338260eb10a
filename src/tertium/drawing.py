"""Shared by all figures: a blank matplotlib figure, colours and a plain style."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tertium.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "MARK", "blank_figure", "panels", "plain_style", "series_style", "shortened"]

# Okabe & Ito's colour-blind safe palette, with a marker each for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
MARK = "#B24700"  # highlights words; dark enough for small print

_STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": "0.45",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "tertium",
}


def blank_figure(width: float, height: float) -> "Figure":
    """A blank figure, with its size in inches; raises if matplotlib is not installed."""
    require("report", purpose="Drawing", packages=("matplotlib",))
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def plain_style() -> Iterator[None]:
    """Figures made inside the block share one small font and have no superfluous lines."""
    require("report", purpose="Drawing", packages=("matplotlib",))
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def series_style(number: int) -> tuple[str, str]:
    """Colour and marker of a series; beyond seven series the pairing changes.

    >>> series_style(0), series_style(7)
    (('#0072B2', 'o'), ('#0072B2', 's'))
    """
    turn, place = divmod(number, len(COLOURS))
    return COLOURS[place], _MARKERS[(place + turn) % len(_MARKERS)]


def panels(count: int, *, columns: int = 3) -> tuple[int, int]:
    """Rows and columns of a grid for ``count`` panels.

    >>> panels(2), panels(4), panels(6), panels(7)
    ((1, 2), (2, 2), (2, 3), (3, 3))
    """
    wide = min(count, columns if count != columns + 1 else (columns + 2) // 2)
    return math.ceil(count / wide), wide


def shortened(name: str, *, length: int = 28) -> str:
    """A name that fits beside a figure; a long one keeps its end, which is more telling.

    >>> shortened("a/very/long/path/to/a/model", length=12)
    '…h/to/a/model'
    """
    return name if len(name) <= length else f"…{name[-length:]}"
