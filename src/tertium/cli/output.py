"""Print results on standard output, as JSON or for people, and everything else on standard error.

Commands print only through this module, which escapes control characters, so that no text can
control the terminal.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

from tertium.errors import TertiumWarning
from tertium.progress import write_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from tertium.records.decision import Decision

__all__ = [
    *(
        "bar",
        "cell",
        "console",
        "count",
        "emit",
        "interruptible",
        "note",
        "save_figures",
        "say",
        "show",
    ),
    *("show_warning", "table", "verdict_cells", "visible"),
]


# Characters that a terminal may interpret, or that reorder text: control characters except tab and
# line feed, other line breaks, and overrides of the writing direction.
_COMMANDS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_COMMANDS += [*range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _COMMANDS}
_IN_JSON = {code: f"\\u{code:04x}" for code in _COMMANDS}  # the same value to any reader


def visible(text: str) -> str:
    r"""``text`` with every character that could control the terminal escaped.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return text.translate(_VISIBLE)


def show(
    document: Any,
    *lines: "str | RenderableType",
    as_json: bool,
    notes: str | Iterable[str] = (),
) -> None:
    """Print the result of a command.

    Args:
        document: the result for programs, printed with ``--json``.
        lines: the result for people: sentences, and tables from :func:`table`.
        as_json: whether ``--json`` was given.
        notes: messages for people, on standard error.
    """
    if as_json:
        emit(document)
        return
    for line in lines:
        if isinstance(line, str):
            say(line)
        else:
            console().print(line)
    for message in [notes] if isinstance(notes, str) else notes:
        note(message)


def emit(document: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2).translate(_IN_JSON)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # not a UTF-8 terminal, or an argument that was not text
        text = json.dumps(document, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Print a line of a result for people."""
    typer.echo(visible(text))


def note(message: str) -> None:
    """Print a message on standard error, above any progress bars."""
    write_line(visible(message))


@contextmanager
def interruptible(kept: str, remedy: str = "rerun the command to resume") -> Iterator[None]:
    """Say on an interruption what is kept, and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"{kept} are kept; {remedy}")
        raise typer.Exit(130) from None


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show our own warnings as notes, and suppress those of libraries."""
    if issubclass(category, TertiumWarning):
        note(f"note: {message}")


def console() -> "Console":
    """Standard output for :func:`cell` and :func:`table`."""
    from rich.console import Console

    return Console(highlight=False)


def cell(text: str, style: str = "") -> "Text":
    """``text`` for rich to print literally, without markup or control characters."""
    from rich.text import Text

    return Text(visible(text), style)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> "Table":
    """A table without lines; strings are shown literally.

    Args:
        headings: one per column; empty for a table without a header.
        rows: the cells of each row.
        right: headings of right-aligned columns.
        whole: headings of columns that are never truncated.
    """
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, show_header=bool(headings))
    for heading in headings:
        drawn.add_column(
            cell(heading),
            justify="right" if heading in right else "left",
            no_wrap=heading in whole,
            overflow="fold" if heading in whole else "ellipsis",
        )
    for row in rows:
        drawn.add_row(*(cell(item) if isinstance(item, str) else item for item in row))
    return drawn


def bar(value: float, *, low: float, high: float, width: int = 20) -> str:
    """A bar whose length is proportional to ``value``, in eighths of a block.

    >>> bar(0.5, low=0, high=1, width=4)
    '██  '
    """
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    full, rest = divmod(round(share * width * 8), 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def verdict_cells(
    decision: "Decision | None", score: float | None
) -> tuple[str | float | None, ...]:
    """The verdict on a cosine, for the columns ``VERDICT``; empty without a decision."""
    if decision is None:
        return ()
    from tertium.records.decision import verdict_rows

    return verdict_rows(decision, [score])[0]


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def save_figures(figures: dict[str, "Figure"], folder: Path) -> list[Path]:
    """Write each figure as PNG and SVG, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for name, figure in figures.items():
        for ending in ("png", "svg"):
            files.append(folder / f"{name}.{ending}")
            figure.savefig(files[-1], dpi=150)
    return files
