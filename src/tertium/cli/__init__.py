"""The command line: one thin function per command, heavy imports inside them."""

import io
import sys
import warnings
from collections.abc import Callable

import typer

from tertium.cli import (
    analysis,
    bulk,
    compare,
    corpus,
    data,
    doctor,
    engines,
    evaluate,
    explain,
    fit,
    index,
    label,
    models,
    serve,
    train,
)
from tertium.cli.command import Command, Group
from tertium.cli.output import note, show_warning
from tertium.errors import TertiumError, missing_extra
from tertium.progress import heartbeat

__all__ = ["app", "main"]

app = typer.Typer(
    name="tertium",
    cls=Group,
    help="How similar are two texts, and in what way?",
    epilog='Try: tertium compare "A cat sleeps." "A kitten is napping."',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, list[Callable[..., None] | tuple[str, typer.Typer]]] = {
    "Use": [compare.compare, explain.explain, bulk.score, bulk.encode, ("models", models.app)],
    "Corpus": [("index", index.app), corpus.mine, corpus.dedupe, corpus.cluster],
    "Train": [
        *(label.label, fit.fit, train.train, train.recipes, ("data", data.app)),
        *(data.silver, data.backtranslate, train.distil, models.ensemble),
        *(train.sweep, train.lowshot),
    ],
    "Measure": [
        *(evaluate.evaluate, evaluate.report, analysis.inspect),
        *(analysis.attention, analysis.augment, explain.focus),
    ],
    "Serve": [serve.serve, engines.tune, engines.export, models.convert, doctor.doctor],
}
for _panel, _entries in PANELS.items():
    for _entry in _entries:
        if isinstance(_entry, tuple):
            app.add_typer(_entry[1], name=_entry[0], rich_help_panel=_panel, cls=Group)
        else:
            app.command(rich_help_panel=_panel, cls=Command)(_entry)
app.command("rtt", hidden=True, cls=Command)(data.backtranslate)  # its name before


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from tertium import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; exits with 0 for success, 2 for an error and 130 if interrupted."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # unencodable characters must not raise
            stream.reconfigure(errors="backslashreplace")
    try:
        with heartbeat(" ".join(["tertium", *sys.argv[1:2]])):
            app()
    except TertiumError as error:
        note(f"error: {error}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        note(f"error: {missing}")
        sys.exit(2)
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has exited
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # no such folder, no permission, no space
        note(f"error: {error}")
        sys.exit(2)
