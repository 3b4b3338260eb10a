"""``tertium sweep``: a grid of runs and its table."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON, emit, note, say

__all__ = ["sweep"]


def sweep(
    file: str = typer.Argument(
        help="A sweep's name or YAML file: recipe, runs, seeds.", callback=checks.sweep
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for all runs."),
    data: Path | None = DATA,
    jobs: int = typer.Option(1, min=1, help="Runs at a time, each in a process of its own."),
    settings: list[str] = typer.Option(
        [], "--set", help="Replace a setting of every run, as a.b=value; may be repeated."
    ),
    keep_models: bool = typer.Option(False, help="Keep every run's weights."),
    strict_data: bool = typer.Option(
        False, "--strict-data", help="Fail where less data is found than a recipe asks for."
    ),
    as_json: bool = JSON,
) -> None:
    """Run every variant of a sweep with every seed; finished runs are skipped.

    Example: tertium sweep sts-regression-minilm-losses -o sweeps/losses
    """
    from tertium.recipes.sweep import run_sweep

    table = run_sweep(
        file,
        output,
        data=data,
        jobs=jobs,
        keep_models=keep_models,
        strict_data=strict_data,
        overrides=settings,
        say=note,
    )
    if as_json:
        emit(table.to_json())
    else:
        say(str(table))
