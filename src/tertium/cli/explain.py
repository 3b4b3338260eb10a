"""``tertium explain`` and ``tertium focus``: explain a score, and show attention."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tertium.cli import checks, options
from tertium.cli.output import bar, cell, console, save_figures, show, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tertium.explain import Explanation, Focus

__all__ = ["explain", "focus"]

_ENDINGS = (".html", ".png", ".svg")
_WORDS = 80  # maximum words of a text, those that contribute most
_ROWS, _COLUMNS = 12, 20  # maximum size of the alignment
_WIDEST = 10  # maximum width of a word in it
# Okabe & Ito's colours, strong and weak, with a legible text colour.
_TOWARDS = ("white on #0072B2", "black on #56B4E9")
_AWAY = ("black on #D55E00", "black on #E69F00")
_NEAREST = "bold underline"


def explain(
    a: Annotated[str, typer.Argument(help="The first text.")],
    b: Annotated[str, typer.Argument(help="The second text.")],
    on: options.Condition = None,
    model: options.Scorer = None,
    method: Annotated[
        str, typer.Option(help="occlusion, or gradients for integrated gradients as well.")
    ] = "occlusion",
    steps: Annotated[
        int | None,
        typer.Option(min=2, help="Steps of the integral (default: until its error is below 1 %)."),
    ] = None,
    by: Annotated[
        float | None,
        typer.Option(
            help="How far the smallest change moves the score (default: 1; for a cosine, 0.2)."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option(min=0, help="Maximum words the smallest change may remove; 0 to skip it.")
    ] = 6,
    engine: options.Engine = "default",
    output: Annotated[
        list[Path],
        typer.Option("--output", "-o", help="File to write: .html, .png or .svg; may be repeated."),
    ] = [],
    as_json: options.Json = False,
) -> None:
    """Show which words account for a score, and the smallest change that would move it.

    Example: tertium explain "A man plays a guitar." "A woman plays the flute."
    """
    _check(method, output)
    import tertium

    plain = "sts-fast" if method == "gradients" else "sts"  # reads texts together
    scorer = tertium.load(model or (plain if on is None else "conditional"), engine=engine)
    found = scorer.explain(a, b, condition=on, method=method, steps=steps, by=by, most=most)
    for path in output:
        _write(found, path)
    document = {**found.to_json(), "files": [str(path) for path in output]}
    if not as_json:
        _show_explanation(found)
    show(document, as_json=as_json, notes=[f"wrote {path}" for path in output])


def focus(
    a: Annotated[str, typer.Argument(help="The first sentence.")],
    b: Annotated[str, typer.Argument(help="The second sentence.")],
    on: Annotated[str, typer.Option(metavar="CONDITION", help="The condition to compare under.")],
    model: Annotated[
        str | None,
        typer.Option(
            *("--model", "-m"),
            help="A model that takes conditions, or any encoder (default: conditional).",
            callback=checks.model,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Model whose attention to show (default: the same, before reallocation).",
            callback=checks.model,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for focus.png and focus.svg."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show where attention goes under a condition, before and after SEAVER's reallocation.

    Example: tertium focus "A boy skates." "A man on inline skates." --on "the type of skating"
    """
    from tertium.errors import require

    if output is not None:
        require("report", purpose="Drawing attention", packages=("matplotlib",))
    import tertium
    from tertium.explain import attending_part
    from tertium.explain import focus as looked
    from tertium.explain.pictures import focus_figure

    part = attending_part(tertium.load(model or "conditional"))
    other = None if baseline is None else attending_part(tertium.load(baseline))
    found = looked(part, (a, b, on), baseline=other)
    files = [] if output is None else save_figures({"focus": focus_figure(found)}, output)
    show(
        {
            "model": model or "conditional",
            "files": [str(file) for file in files],
            **found.to_json(),
        },
        cell(f"with respect to: {found.condition}", style="bold"),
        _focus_table(found),
        cell("* exchanges most attention with the condition", style="dim"),
        cell("bars: from the least to the most attended word", style="dim"),
        as_json=as_json,
        notes=[f"{output}: {', '.join(file.name for file in files)}"] if files else (),
    )


def _check(method: str, output: list[Path]) -> None:
    """Raise for unknown methods and output formats, before anything is computed."""
    from tertium.errors import TertiumError, require, unknown_name
    from tertium.types import ExplanationMethod

    if method not in set(ExplanationMethod):
        raise unknown_name("method", method, list(ExplanationMethod))
    for path in output:
        if path.suffix.lower() not in _ENDINGS:
            raise TertiumError(f"{path}: the output must be one of {', '.join(_ENDINGS)}.")
        if path.suffix.lower() != ".html":
            require("report", purpose=f"Drawing {path}", packages=("matplotlib",))


def _write(found: "Explanation", path: Path) -> None:
    from tertium.explain.pictures import explanation_html, write_explanation_figure
    from tertium.files import write_text

    if path.suffix.lower() != ".html":
        write_explanation_figure(found, path)
        return
    write_text(path, explanation_html(found))


def _focus_table(found: "Focus") -> "Table":
    import numpy as np

    received = [np.nanmean(matrix, axis=0) for matrix in (found.attention, found.weights)]
    ends = [(float(values.min()), float(values.max())) for values in received]
    rows: list[list[str | Text]] = []
    for at, word in enumerate(found.words):
        if at == found.split:
            rows.append([""])
        marked = at in found.marked
        row: list[str | Text] = [cell(f"{'*' if marked else ' '} {word}", "bold" * marked)]
        for values, (low, high) in zip(received, ends, strict=True):
            value = float(values[at])
            row += [f"{value:.4f}", bar(value, low=low, high=high + 1e-9, width=16)]
        rows.append(row)
    return table(("word", "attention", "", "reallocated", ""), rows)


def _show_explanation(found: "Explanation") -> None:
    """Show coloured words with their signed contributions, and the rest."""
    from tertium.explain.pictures import explanation_title, smallest_sentence

    out = console()
    out.print(cell(explanation_title(found), style="bold"))
    for text in (0, 1):
        out.print()
        _show_words(out, found, text)
    out.print()
    _show_legend(out, found)
    out.print(cell(smallest_sentence(found)))
    if found.alignment is not None and all(found.words):
        out.print()
        out.print(_alignment(found, width=out.width))
        out.print("cosines of words in the last layer, rows are A's", style="dim")
    if found.focus is not None:
        out.print()
        out.print(_attention(found.focus))
        out.print("attention that a word receives from the others; 1 is an even", style="dim")
        out.print("share, * exchanges most of it with the condition", style="dim")
    for line in found.notes:
        out.print(cell(line, style="dim"))


def _show_words(out: "Console", found: "Explanation", text: int) -> None:
    """Show words with their contributions below them, wrapped to the width."""
    from tertium.explain.pictures import strongest_words

    reach = max((abs(v) for values in found.contributions for v in values), default=0) or 1.0
    places = strongest_words(found, text, _WORDS)
    columns: list[list[Text]] = []
    for at in places:
        style = _style(found.contributions[text][at] / reach)
        lines = [cell("") + cell(found.word((text, at)), style)]  # padding has no colour
        lines.append(cell(f"{found.occlusion[text][at]:+z.2f}"))
        if found.gradients is not None:
            lines.append(cell(f"{found.gradients.contributions[text][at]:+z.2f}"))
        wide = max(line.cell_len for line in lines)
        for line in lines:
            line.pad_right(wide - line.cell_len)
        columns.append(lines)
    out.print(cell("AB"[text], style="bold"), end=" ")
    if not columns:
        out.print("(no words)", style="dim")
    for number, block in enumerate(_wrapped(columns, out.width - 3)):
        for line_number, parts in enumerate(zip(*block, strict=True)):
            start = "" if number == line_number == 0 else "  "
            out.print(cell(start) + cell(" ").join(parts), no_wrap=True)
    left_out = len(found.words[text]) - len(places)
    if left_out:
        out.print(f"  and {left_out} words that contribute less", style="dim")


def _wrapped(columns: "Sequence[list[Text]]", width: int) -> "Iterator[list[list[Text]]]":
    """Split columns into blocks that fit a width."""
    block: list[list[Text]] = []
    used = 0
    for lines in columns:
        wide = lines[0].cell_len
        if block and used + wide > width:
            yield block
            block, used = [], 0
        block.append(lines)
        used += wide + 1
    if block:
        yield block


def _show_legend(out: "Console", found: "Explanation") -> None:
    out.print("+ holds the texts together, - sets them apart:", style="dim")
    out.print("change in score when the word is removed", style="dim")
    if found.gradients is None:
        return
    integral = found.gradients
    first, second = integral.baselines
    out.print("below it: integrated gradients from a neutral text,", style="dim")
    out.print(f"whose score is {first:.2f} for A and {second:.2f} for B;", style="dim")
    error = f"{100 * integral.error:.2f} %"
    out.print(f"completeness error {error} with {integral.steps} steps", style="dim")


def _alignment(found: "Explanation", *, width: int) -> "Table":
    """A table with as many columns as fit; the nearest word of each row is bold."""
    from tertium.explain.pictures import strongest_words

    assert found.alignment is not None
    rows, columns = strongest_words(found, 0, _ROWS), strongest_words(found, 1, _COLUMNS)

    def needed() -> int:
        """Width of all columns, with spaces."""
        heads = (cell(_short(found.word((1, at)))).cell_len for at in columns)
        return _WIDEST + sum(max(head, len("-0.00")) + 2 for head in heads)

    while len(columns) > 1 and needed() > width:
        columns = strongest_words(found, 1, len(columns) - 1)
    headings = [_short(found.word((1, at))) for at in columns]
    lines: list[list[str | Text]] = []
    for row in rows:
        cosines = found.alignment[row]
        nearest = max(cosines)
        line: list[str | Text] = [_short(found.word((0, row)))]
        line += [cell(f"{cosines[at]:z.2f}", _NEAREST * (cosines[at] == nearest)) for at in columns]
        lines.append(line)
    return table(("", *headings), lines, right=headings)


def _attention(focus: "Focus") -> "Table":
    columns = focus.shares
    steps = ("without condition", "with it", "reallocated")[: len(columns)]
    rows: list[list[str]] = []
    for at, word in enumerate(focus.words):
        if at == focus.split:
            rows.append([""])
        shares = [f"{values[at]:.2f}" for values in columns]
        rows.append([f"{'*' if at in focus.marked else ' '} {word}", *shares])
    return table(("word", *steps), rows, right=steps)


def _style(share: float) -> str:
    """Strong, weak or no colour."""
    if abs(share) < 0.15:
        return ""
    strong, weak = _TOWARDS if share > 0 else _AWAY
    return strong if abs(share) > 0.5 else weak


def _short(word: str) -> str:
    shown = cell(word)
    shown.truncate(_WIDEST, overflow="ellipsis")
    return shown.plain
