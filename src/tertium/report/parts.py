"""What a page is made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Broken", "Drawn", "LeftOut", "Note", "Section", "Table", "rounded"]


@dataclass(frozen=True)
class Drawn:
    """A picture.

    Attributes:
        name: of its files.
        figure: what matplotlib drew.
        title: in a few words.
        caption: what to read from it.
        alt: what it shows, for those who do not see it.
        function: that drew it.
        paper: the figure it is the counterpart of, if there is one.
    """

    name: str
    figure: "Figure"
    title: str
    caption: str
    alt: str
    function: str
    paper: str = ""
    kind: str = "figure"


@dataclass(frozen=True)
class Table:
    """Rows of text; the first cell of a row names it.

    Attributes:
        caption: what the table holds.
        header: names of the columns.
        rows: cells.
        prose: numbers of the columns that hold text and not figures.
        folded: shown when asked for.
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
        key: its place in links and in the JSON document.
        title: its heading.
        lead: what it is about.
        blocks: in order.
        numbers: what the pictures show, as plain values.
    """

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...]
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """Why something is not on the page."""

    section: str
    model: str | None
    reason: str


@dataclass(frozen=True)
class Broken:
    """A model that could not be loaded, or failed while it was measured or looked at."""

    model: str
    while_doing: str
    error: str


def rounded(values: Sequence[float]) -> list[float]:
    """As the page's numbers are written."""
    return [round(value, 5) for value in values]
