"""The command line: one thin function per command, heavy imports inside them."""

import io
import sys
import warnings

import typer

from tertium.cli import (
    attention,
    augment,
    cluster,
    compare,
    convert,
    data,
    dedupe,
    distil,
    doctor,
    encode,
    ensemble,
    evaluate,
    explain,
    export,
    focus,
    index,
    inspect,
    lowshot,
    mine,
    models,
    report,
    rtt,
    score,
    serve,
    sweep,
    train,
    tune,
)
from tertium.cli.output import note, show_warning
from tertium.errors import TertiumError
from tertium.progress import heartbeat

__all__ = ["app", "main"]

app = typer.Typer(
    name="tertium",
    help="How alike are these two texts, and in which respect?",
    epilog='Try: tertium compare "A cat sleeps." "A kitten is napping."',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(compare.compare)
app.command()(explain.explain)
app.command()(score.score)
app.command()(encode.encode)
app.add_typer(index.app, name="index")
app.command()(mine.mine)
app.command()(dedupe.dedupe)
app.command()(cluster.cluster)
app.command()(evaluate.evaluate)
app.command()(train.train)
app.command()(train.recipes)
app.command()(distil.distil)
app.command()(sweep.sweep)
app.command()(lowshot.lowshot)
app.command()(augment.augment)
app.command()(attention.attention)
app.command()(focus.focus)
app.command()(serve.serve)
app.command()(models.models)
app.command()(inspect.inspect)
app.command()(report.report)
app.command()(convert.convert)
app.command()(export.export)
app.command()(tune.tune)
app.command()(ensemble.ensemble)
app.command()(rtt.rtt)
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
    """Run a command: 0 for success, 2 for what the user can mend, 130 when interrupted."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what cannot be shown must not stop the answer
            stream.reconfigure(errors="backslashreplace")
    try:
        with heartbeat(" ".join(["tertium", *sys.argv[1:2]])):
            app()
    except TertiumError as error:
        note(f"error: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # no such folder, no permission, no space
        note(f"error: {error}")
        sys.exit(2)
