"""An empty figure, if matplotlib is there."""

from typing import TYPE_CHECKING

from tertium.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["blank_figure"]


def blank_figure(width: float, height: float) -> "Figure":
    """A figure of so many inches; what is missing is named."""
    require("report", purpose="Drawing", packages=("matplotlib",))
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
