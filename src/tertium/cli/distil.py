"""``tertium distil``: what several models know, in one."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON
from tertium.errors import TertiumError

__all__ = ["distil"]


def distil(
    teachers: list[str] = typer.Argument(
        help="Models whose embeddings are learned: their sum.", callback=checks.models
    ),
    texts: Path = typer.Option(
        ..., help="Texts to learn on, one a line or a table.", callback=checks.file
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the model."),
    student: str = typer.Option("default", help="Model to start from.", callback=checks.model),
    weight: float | None = typer.Option(
        None, help="Of the last teacher; the others share the rest of 1 (default: a plain sum)."
    ),
    keep_projection: bool = typer.Option(
        False, "--keep-projection", help="Where widths differ, keep the layer that joins them."
    ),
    pooling: str | None = typer.Option(
        None, help="Of the student (default: its own).", callback=checks.pooling
    ),
    max_length: int | None = typer.Option(None, min=2, help="Tokens that the student reads."),
    layers: str | None = typer.Option(
        None, help="Keep so many of the student's layers, as 3, or those named, as 1,3,6."
    ),
    epochs: float | None = typer.Option(None, help="Passes over the texts (default: 1)."),
    steps: int | None = typer.Option(None, min=1, help="Optimiser steps, instead of epochs."),
    batch_size: int | None = typer.Option(None, min=1, help="Texts per step (default: 64)."),
    learning_rate: float | None = typer.Option(None, help="Default: 5e-5."),
    seed: int | None = typer.Option(None, help="Of data order and dropout (default: 42)."),
    data: Path | None = DATA,
    resume: bool = typer.Option(False, "--resume", help="Go on after an interruption."),
    set_: list[str] = typer.Option([], "--set", help="Override a setting: a.b=value; repeatable."),
    evaluation: bool = typer.Option(True, help="Evaluate on STS at the end, if data are found."),
    as_json: bool = JSON,
) -> None:
    """Train one model to give the embeddings of another, or of several together.

    Example: tertium distil tower-1 tower-2 --student default --texts sentences.txt -o one
    """
    from tertium.models.shares import member_weights
    from tertium.recipes.files import check_run

    check_run(output, resume=resume)
    member_weights(len(teachers), weight)
    kept = None if layers is None else _layers(layers)
    from tertium.cli.train import show_trained
    from tertium.evaluation.provenance import current_command
    from tertium.recipes.distil import distil as run

    given = {
        "epochs": epochs,
        "max_steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
    }
    trained = run(
        teachers,
        student,
        texts,
        output,
        weight=weight,
        keep_projection=keep_projection,
        pooling=pooling,
        max_length=max_length,
        layers=kept,
        settings={name: value for name, value in given.items() if value is not None},
        overrides=set_,
        data=data,
        resume=resume,
        seed=seed,
        command=current_command(),
        evaluate_after=evaluation,
    )
    show_trained(trained, as_json=as_json)


def _layers(given: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in given.split(",")]
    except ValueError:
        raise TertiumError(
            f"--layers {given}: write how many to keep, as 3, or which, as 1,3,6."
        ) from None
    return numbers if "," in given else numbers[0]
