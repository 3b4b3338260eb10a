"""Results to standard output, everything else to standard error."""

import json
import sys
from typing import Any, TextIO

import typer

from tertium.cli import checks
from tertium.errors import TertiumWarning
from tertium.progress import write_line

__all__ = [
    *("DATA", "ENGINE", "JSON", "MODEL", "NAMED_MODEL", "SCORER"),
    *("emit", "note", "show_warning"),
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
JSON = typer.Option(False, "--json", help="Print JSON on standard output.")


def emit(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:  # a narrow terminal, or an argument that was no text
        text = json.dumps(value, allow_nan=False, indent=2)
    sys.stdout.write(text + "\n")


def note(message: str) -> None:
    """Tell the user something that is not a result, above the bars if there are any."""
    write_line(message)


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
