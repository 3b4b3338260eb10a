"""``tertium focus``: where attention goes under a condition."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tertium.cli import checks
from tertium.cli.output import JSON, cell, emit, note

if TYPE_CHECKING:
    from tertium.explain import Focus
    from tertium.heads import ConditionalHead
    from tertium.models import Encoder

__all__ = ["focus"]


def focus(
    a: str = typer.Argument(help="The first sentence."),
    b: str = typer.Argument(help="The second sentence."),
    on: str = typer.Option(..., help="The respect in which they are compared."),
    model: str | None = typer.Option(
        *(None, "--model", "-m"),
        help="One that takes conditions, or any encoder (default: conditional).",
        callback=checks.model,
    ),
    baseline: str | None = typer.Option(
        None,
        help="Model whose attention to show (default: the same, before reallocation).",
        callback=checks.model,
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Folder for focus.png and focus.svg."
    ),
    as_json: bool = JSON,
) -> None:
    """Show where attention goes under a condition, before and after SEAVER's reallocation.

    Example: tertium focus "A boy skates." "A man on inline skates." --on "the type of skating"
    """
    from tertium.errors import require

    if output is not None:
        require("report", purpose="Drawing attention", packages=("matplotlib",))
    from tertium.explain import focus as looked
    from tertium.explain.focus_figure import focus_figure

    encoder, head = _parts(model)
    other = None if baseline is None else _parts(baseline)[0]
    found = looked(encoder, (a, b, on), head=head, baseline=other)
    files: list[Path] = []
    if output is not None:
        figure = focus_figure(found)
        output.mkdir(parents=True, exist_ok=True)
        files = [output / f"focus.{ending}" for ending in ("png", "svg")]
        for file in files:
            figure.savefig(file, dpi=150)
    if as_json:
        emit(
            {
                "model": model or "conditional",
                "files": [str(file) for file in files],
                **found.to_json(),
            }
        )
        return
    _show(found)
    if files:
        note(f"{output}: {', '.join(file.name for file in files)}")


def _parts(model: str | None) -> "tuple[Encoder, ConditionalHead | None]":
    """Encoder and head; of an average, those of a member with reallocation if there is one."""
    import tertium
    from tertium.heads import SeaverHead
    from tertium.models import ConditionalAverage, ConditionalScorer, Encoder

    loaded = tertium.load(model or "conditional")
    if isinstance(loaded, ConditionalAverage):
        loaded = min(loaded.scorers, key=lambda scorer: not isinstance(scorer.head, SeaverHead))
    if isinstance(loaded, ConditionalScorer):
        return loaded.encoder, loaded.head
    return (loaded if isinstance(loaded, Encoder) else loaded.encoder), None


def _show(found: "Focus") -> None:
    from rich.console import Console
    from rich.table import Table

    from tertium.cli.compare import bar

    received = [matrix.nanmean(dim=0) for matrix in (found.attention, found.weights)]
    ends = [(float(values.min()), float(values.max())) for values in received]
    table = Table("word", "attention", "", "reallocated", "", box=None, pad_edge=False)
    for at, word in enumerate(found.words):
        if at == found.split:
            table.add_row("")
        cells: list[str] = []
        for values, (low, high) in zip(received, ends, strict=True):
            value = float(values[at])
            cells += [f"{value:.4f}", bar(value, low=low, high=high + 1e-9, width=16)]
        marked = at in found.marked
        table.add_row(cell(f"{'*' if marked else ' '} {word}", "bold" if marked else ""), *cells)
    console = Console()
    console.print(cell(f"as to: {found.condition}", style="bold"))
    console.print(table)
    console.print("* exchanges most attention with the condition", style="dim")
    console.print("bars: from the least to the most attended word", style="dim")
