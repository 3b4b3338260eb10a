"""A page of sections, and the folder with its figures and numbers."""

import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import yaml
from markupsafe import Markup, escape

from tertium.errors import TertiumError
from tertium.files import atomic_folder, check_new_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "NUMBERS",
    "PAGE",
    "Block",
    "Broken",
    "Drawn",
    "LeftOut",
    "Note",
    "Section",
    "Table",
    "alt_text",
    "clear_figures",
    "earlier_figures",
    "inline_svg",
    "prose",
    "render",
    "rounded",
    "save_figure",
    "write_report",
]

PAGE = "index.html"
NUMBERS = "report.json"
_HERE = Path(__file__).parent
_MANY = 200  # markers from which a bitmap is smaller than their outlines
_DPI = 150
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@cache
def prose() -> dict[str, Any]:
    """Headings, introductions, titles and captions."""
    text = (_HERE / "prose.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@dataclass(frozen=True)
class Drawn:
    """A figure.

    Attributes:
        name: name of its files.
        figure: the matplotlib figure.
        title: short title.
        caption: how to read it.
        alt: description for screen readers.
        function: name of the function that drew it.
        paper: the figure in a paper that it corresponds to, if any.
    """

    name: str
    figure: "Figure"
    title: str
    caption: str
    alt: str
    function: str
    paper: str = ""
    kind: str = "figure"

    @classmethod
    def of(
        cls, key: str, figure: "Figure", *, alt: str, number: int | None = None, **values: object
    ) -> Self:
        """A figure with its text from ``prose.yaml``.

        Args:
            key: its name there.
            figure: the matplotlib figure.
            alt: description for screen readers.
            number: suffix of its name, if there are several.
            values: values for its title and caption.
        """
        words = prose()["figures"][key]
        name = key if number is None else f"{key}-{number}"
        title, caption = (words[part].format(**values) for part in ("title", "caption"))
        return cls(name, figure, title, caption, alt, words["function"], words.get("paper", ""))


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its heading.

    Attributes:
        caption: the caption.
        header: names of the columns.
        rows: rows of cells.
        prose: indices of columns with text rather than numbers.
        folded: collapsed at first.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    prose: frozenset[int] = frozenset()
    folded: bool = False
    kind: str = "table"


@dataclass(frozen=True)
class Note:
    """A sentence or two."""

    text: str
    kind: str = "note"


Block = Drawn | Table | Note


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        key: its name in links and in the JSON document.
        title: its heading.
        lead: its introduction.
        blocks: its contents.
        numbers: the values behind its figures.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    numbers: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        key: str,
        blocks: tuple[Block, ...],
        numbers: dict[str, Any] | None = None,
        **values: object,
    ) -> Self:
        """A section with its text from ``prose.yaml``."""
        words = prose()["sections"][key]
        return cls(key, words["title"], words["lead"].format(**values), blocks, numbers or {})


@dataclass(frozen=True)
class LeftOut:
    """Why something is not on the page."""

    section: str
    model: str | None
    reason: str


@dataclass(frozen=True)
class Broken:
    """A model that could not be loaded, measured or inspected."""

    model: str
    while_doing: str
    error: str


def alt_text(before: str, parts: Iterable[str]) -> str:
    """A list for screen readers, behind its beginning."""
    return f"{before}{'; '.join(parts)}."


def rounded(values: Sequence[float]) -> list[float]:
    """Round to five digits, for the JSON document."""
    return [round(value, 5) for value in values]


def save_figure(drawn: Drawn, folder: Path) -> str:
    """Write PNG and SVG, and return the SVG for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    _flatten(drawn.figure)
    drawn.figure.savefig(folder / f"{drawn.name}.png", dpi=_DPI, metadata={"Software": None})
    drawn.figure.set_layout_engine("none")  # keep the layout of the PNG
    buffer = io.StringIO()
    drawn.figure.savefig(buffer, format="svg", dpi=_DPI * 4 / 3, metadata=_NO_METADATA)
    text = buffer.getvalue()
    (folder / f"{drawn.name}.svg").write_text(text, encoding="utf-8")
    return inline_svg(text, name=drawn.name, alt=drawn.alt)


def inline_svg(text: str, *, name: str, alt: str) -> str:
    """An SVG document as an element of a page: no prolog, unique ids, a description."""
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
        sections: the sections.
        pictures: SVG elements by name of the figure.
        title: title of the page.
        subtitle: one line below it.
        warning: shown at the top.
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
    """Rasterise clouds of many markers inside the SVG; text and axes stay vectors."""
    for axes in figure.axes:
        for collection in axes.collections:
            values = collection.get_array()
            marks = max(
                np.size(collection.get_offsets()) // 2, 0 if values is None else values.size
            )
            collection.set_rasterized(marks > _MANY)


def write_report(
    output: Path,
    sections: Sequence[Section],
    drawn: Sequence[Drawn],
    numbers: dict[str, Any],
    *,
    labels: Sequence[str],
    broken: Sequence[Broken],
) -> None:
    """Draw the figures and write everything; the page itself comes last."""
    shown = ", ".join(labels)
    failed = ", ".join(dict.fromkeys(entry.model for entry in broken))
    with atomic_folder(output, last=PAGE) as temporary:
        pictures = {entry.name: save_figure(entry, temporary / "figures") for entry in drawn}
        page = render(
            sections,
            pictures,
            title=f"Report: {shown}" if len(labels) <= 3 else f"Report: {len(labels)} models",
            subtitle=f"A report on {shown}, {numbers['provenance']['date'][:10]}.",
            warning=f"Some parts failed: see “What failed” for {failed}." if broken else None,
        )
        (temporary / PAGE).write_text(page, encoding="utf-8")
        text = json.dumps(numbers, ensure_ascii=False, allow_nan=False, indent=1)
        (temporary / NUMBERS).write_text(text + "\n", encoding="utf-8")


def earlier_figures(output: Path) -> set[str]:
    """Figures of an earlier report in the same folder; raises if it contains anything else."""
    record = output / NUMBERS
    if not record.is_file():
        check_new_folder(output)
        return set()
    try:
        files = json.loads(record.read_text(encoding="utf-8"))["files"]
    except (ValueError, LookupError, TypeError) as error:
        raise TertiumError(
            f"{record} does not belong to a report. Choose another folder, or remove it."
        ) from error
    return {str(file) for file in files if str(file).startswith("figures/")}


def clear_figures(output: Path, stale: set[str]) -> None:
    """Remove figures that the new report does not have."""
    for file in stale:
        path = output / file
        if path.parent == output / "figures":
            path.unlink(missing_ok=True)
