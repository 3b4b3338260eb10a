"""The command line: one thin function per command, heavy imports inside them."""

import io
import sys
import warnings

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
from tertium.cli.output import note, show_warning
from tertium.errors import TertiumError, missing_extra
from tertium.progress import heartbeat

__all__ = ["app", "main"]

app = typer.Typer(
    name="tertium",
    help="How similar are two texts, and in what way?",
    epilog='Try: tertium compare "A cat sleeps." "A kitten is napping."',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(compare.compare)
app.command()(explain.explain)
app.command()(bulk.score)
app.command()(bulk.encode)
app.add_typer(index.app, name="index")
app.command()(corpus.mine)
app.command()(corpus.dedupe)
app.command()(corpus.cluster)
app.command()(label.label)
app.command()(fit.fit)
app.command()(evaluate.evaluate)
app.command()(train.train)
app.command()(train.recipes)
app.command()(train.distil)
app.command()(train.sweep)
app.command()(train.lowshot)
app.command()(analysis.augment)
app.command()(analysis.attention)
app.command()(explain.focus)
app.command()(serve.serve)
app.add_typer(models.app, name="models")
app.command()(analysis.inspect)
app.command()(evaluate.report)
app.command()(models.convert)
app.command()(engines.export)
app.command()(engines.tune)
app.command()(models.ensemble)
app.command()(data.silver)
app.command()(data.backtranslate)
app.command("rtt", hidden=True)(data.backtranslate)  # its name before
app.add_typer(data.app, name="data")
app.command()(doctor.doctor)


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from tertium import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run a command: 0 for success, 2 for what the user can fix, 130 when interrupted."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what cannot be shown must not stop the output
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
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # no such folder, no permission, no space
        note(f"error: {error}")
        sys.exit(2)
