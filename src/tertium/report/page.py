"""Sections to one page that needs nothing from elsewhere."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup, escape

from tertium.report.parts import Drawn, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inline_svg", "render", "save_figure"]

_HERE = Path(__file__).parent
_MANY = 200  # marks; beyond that a picture of them is smaller than their outlines
_DPI = 150
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def save_figure(drawn: Drawn, folder: Path) -> str:
    """Write PNG and SVG, and return the SVG for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    _flatten(drawn.figure)
    drawn.figure.savefig(folder / f"{drawn.name}.png", dpi=_DPI, metadata={"Software": None})
    drawn.figure.set_layout_engine("none")  # all is in its place now
    buffer = io.StringIO()
    drawn.figure.savefig(buffer, format="svg", dpi=_DPI * 4 / 3, metadata=_NO_METADATA)
    text = buffer.getvalue()
    (folder / f"{drawn.name}.svg").write_text(text, encoding="utf-8")
    return inline_svg(text, name=drawn.name, alt=drawn.alt)


def inline_svg(text: str, *, name: str, alt: str) -> str:
    """An SVG document as an element of a page: no prolog, names of its own, a description."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    return body.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)


def render(
    sections: Sequence[Section],
    pictures: dict[str, str],
    *,
    title: str,
    subtitle: str,
    warning: str | None,
) -> str:
    """The whole page.

    Args:
        sections: in order.
        pictures: SVG elements by the name of the figure.
        title: of the page.
        subtitle: one line below it.
        warning: what must be seen first.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        sections=sections,
        pictures={name: Markup(svg) for name, svg in pictures.items()},
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        title=title,
        subtitle=subtitle,
        warning=warning,
    )


def _flatten(figure: "Figure") -> None:
    """Clouds of many marks become pictures inside the SVG; type and axes stay sharp."""
    for axes in figure.axes:
        for collection in axes.collections:
            values = collection.get_array()
            marks = max(
                np.size(collection.get_offsets()) // 2, 0 if values is None else values.size
            )
            collection.set_rasterized(marks > _MANY)
