"""An explanation in the terminal: words in colours, and every colour also a signed number."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tertium.cli.output import cell, visible
from tertium.explain import Explanation, Focus
from tertium.explain.figures import explanation_title, smallest_sentence, strongest_words

__all__ = ["show"]

_WORDS = 80  # of a text; of a longer one those that contribute most
_ROWS, _COLUMNS = 12, 20  # of the alignment, if there is room
_WIDEST = 10  # letters of a column's word
# Okabe & Ito's colours, strong and weak, with the ink that is legible on them.
_TOWARDS = ("white on #0072B2", "black on #56B4E9")
_AWAY = ("black on #D55E00", "black on #E69F00")


def show(found: Explanation) -> None:
    """Print all there is to say."""
    console = Console(highlight=False)
    console.print(cell(explanation_title(found), style="bold"))
    for text in (0, 1):
        console.print()
        _show_words(console, found, text)
    console.print()
    _show_legend(console, found)
    console.print(cell(smallest_sentence(found)))
    if found.alignment is not None and all(found.words):
        console.print()
        console.print(_alignment(found, width=console.width))
        console.print("cosines of words in the last layer, rows are A's", style="dim")
    if found.focus is not None:
        console.print()
        console.print(_attention(found.focus))
        console.print("attention that a word receives from the others; 1 is an even", style="dim")
        console.print("share, * exchanges most of it with the condition", style="dim")
    for line in found.notes:
        console.print(cell(line, style="dim"))


def _show_words(console: Console, found: Explanation, text: int) -> None:
    """Words with their contributions below them, as many in a line as there is room for."""
    reach = max((abs(v) for values in found.contributions for v in values), default=0) or 1.0
    places = strongest_words(found, text, _WORDS)
    columns = []
    for at in places:
        figures = [f"{found.occlusion[text][at]:+z.2f}"]
        if found.gradients is not None:
            figures.append(f"{found.gradients.contributions[text][at]:+z.2f}")
        word = visible(found.word((text, at)))
        wide = max(map(cell_len, (word, *figures)))
        style = _style(found.contributions[text][at] / reach)
        head = Text.assemble((word, style), " " * (wide - cell_len(word)))
        columns.append((wide, [head, *(Text(f.ljust(wide)) for f in figures)]))
    console.print(Text(f"{'AB'[text]}", style="bold"), end=" ")
    if not columns:
        console.print("(no words)", style="dim")
    for number, block in enumerate(_wrapped(columns, console.width - 3)):
        for line, parts in enumerate(zip(*block, strict=True)):
            start = "" if number == line == 0 else "  "
            console.print(Text(start) + Text(" ").join(parts), no_wrap=True)
    left_out = len(found.words[text]) - len(places)
    if left_out:
        console.print(f"  and {left_out} words that contribute less", style="dim")


def _wrapped(columns: Sequence[tuple[int, list[Text]]], width: int) -> Iterator[list[list[Text]]]:
    """Columns in blocks that fit a width."""
    block: list[list[Text]] = []
    used = 0
    for wide, lines in columns:
        if block and used + wide > width:
            yield block
            block, used = [], 0
        block.append(lines)
        used += wide + 1
    if block:
        yield block


def _show_legend(console: Console, found: Explanation) -> None:
    console.print("+ holds the texts together, - sets them apart", style="dim")
    console.print("by so much the score falls or rises without the word", style="dim")
    if found.gradients is None:
        return
    integral = found.gradients
    first, second = integral.baselines
    console.print("below it: integrated gradients from a text that says nothing,", style="dim")
    console.print(f"whose score is {first:.2f} for A and {second:.2f} for B;", style="dim")
    error = f"{100 * integral.error:.2f} %"
    console.print(f"completeness error {error} with {integral.steps} steps", style="dim")


def _alignment(found: Explanation, *, width: int) -> Table:
    """As many columns as there is room for; the nearest word of each row is bold."""
    assert found.alignment is not None
    rows, columns = strongest_words(found, 0, _ROWS), strongest_words(found, 1, _COLUMNS)
    while len(columns) > 1 and _WIDEST + sum(_column(found, at) for at in columns) > width:
        columns = strongest_words(found, 1, len(columns) - 1)
    table = Table("", box=None, pad_edge=False)
    for at in columns:
        table.add_column(Text(_short(found.word((1, at)))), justify="right")
    for row in rows:
        line = found.alignment[row]
        nearest = max(line)
        cells = [
            Text(f"{line[at]:z.2f}", style="bold underline" if line[at] == nearest else "")
            for at in columns
        ]
        table.add_row(Text(_short(found.word((0, row)))), *cells)
    return table


def _column(found: Explanation, at: int) -> int:
    """Cells that a word of B needs above its cosines, with the space before it."""
    return max(cell_len(_short(found.word((1, at)))), len("-0.00")) + 2


def _attention(focus: Focus) -> Table:
    received = [matrix.nanmean(dim=0) for matrix in focus.steps]
    table = Table("word", box=None, pad_edge=False)
    for name in ("without condition", "with it", "reallocated")[: len(received)]:
        table.add_column(name, justify="right")
    for at, word in enumerate(focus.words):
        if at == focus.split:
            table.add_row("")
        shares = [f"{float(values[at] / values.mean()):.2f}" for values in received]
        table.add_row(cell(f"{'*' if at in focus.marked else ' '} {word}"), *shares)
    return table


def _style(share: float) -> str:
    """Of a word: strong, weak or none."""
    if abs(share) < 0.15:
        return ""
    strong, weak = _TOWARDS if share > 0 else _AWAY
    return strong if abs(share) > 0.5 else weak


def _short(word: str) -> str:
    word = visible(word)
    return word if cell_len(word) <= _WIDEST else f"{word[: _WIDEST - 1]}…"
