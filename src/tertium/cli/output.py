"""Results to standard output, everything else to standard error."""

import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

import typer

from tertium.cli import checks
from tertium.errors import TertiumWarning
from tertium.progress import write_line

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    *("DATA", "ENGINE", "JSON", "MODEL", "NAMED_MODEL", "SAFE_CELLS", "SCORER"),
    *("cell", "emit", "note", "say", "show_warning", "visible"),
]

MODEL = typer.Option(
    *("default", "--model", "-m"),
    help="Reserved name, folder or hub id.",
    callback=checks.model,
)
NAMED_MODEL = typer.Argument(
    "default", help="Reserved name, folder or hub id.", callback=checks.model
)
SCORER = typer.Option(
    *(None, "--model", "-m"),
    help="Reserved name, folder or hub id (default: sts).",
    callback=checks.model,
)
ENGINE = typer.Option(
    "torch",
    help="torch, onnx, onnx-int8, openvino, openvino-int8, static, or auto (see tune).",
    callback=checks.engine,
)
DATA = typer.Option(
    None, help="Benchmark folder (default: TERTIUM_DATA).", callback=checks.data_folder
)
SAFE_CELLS = typer.Option(
    True,
    "--spreadsheet-safe/--raw-cells",
    help="In .tsv and .csv, put ' before a text that a spreadsheet would run as a formula.",
)
JSON = typer.Option(False, "--json", help="Print JSON on standard output.")


# What a terminal may take for a command, or for another order of the letters: control characters
# but for tab and line break, other line breaks, and overrides of the direction of writing.
_COMMANDS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_COMMANDS += [*range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _COMMANDS}
_IN_JSON = {code: f"\\u{code:04x}" for code in _COMMANDS}  # the same value to any reader


def visible(text: str) -> str:
    r"""``text`` with what would command the terminal written as an escape.

    >>> print(visible("\x1b[31mred"))
    \x1b[31mred
    """
    return text.translate(_VISIBLE)


def cell(text: str, style: str = "") -> "Text":
    """``text``, from whatever source, for rich to print: no markup, no commands to the terminal."""
    from rich.text import Text

    return Text(visible(text), style)


def say(text: str) -> None:
    """Print a result for people."""
    typer.echo(visible(text))


def emit(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2).translate(_IN_JSON)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # a narrow terminal, or an argument that was no text
        text = json.dumps(value, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")


def note(message: str) -> None:
    """Tell the user something that is not a result, above the bars if there are any."""
    write_line(visible(message))


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning of ours as a sentence, and leave out those of the libraries."""
    if issubclass(category, TertiumWarning):
        note(f"note: {message}")
