"""``tertium lowshot``: methods against the number of sentences they learn from."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON, emit, note, say

__all__ = ["lowshot"]


def lowshot(
    recipes: str = typer.Argument(help="Recipes that learn from texts, with commas between."),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for all runs."),
    sizes: str = typer.Option("100,1000,10000", help="Numbers of sentences, with commas."),
    seeds: int = typer.Option(5, min=1, help="Seeds per recipe and size; each draws its own."),
    steps: int = typer.Option(50, min=1, help="Optimiser steps of every run."),
    data: Path | None = DATA,
    jobs: int = typer.Option(1, min=1, help="Runs at a time, each in a process of its own."),
    as_json: bool = JSON,
) -> None:
    """Train recipes on few sentences, equal steps for all; ends with a table and a plot.

    Example: tertium lowshot simcse-minilm,micse-minilm --sizes 100,1000 --seeds 2 -o lowshot
    """
    from tertium.errors import TertiumError, require

    require("report", purpose="The plot of tertium lowshot", packages=("matplotlib",))
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise TertiumError(f"--sizes {sizes}: write whole numbers with commas.") from None
    if min(numbers) < 1:
        raise TertiumError(f"--sizes {sizes}: a run needs at least one sentence.")
    names = [checks.recipe(recipe.strip()) for recipe in recipes.split(",")]
    from tertium.analysis import low_shot_curves
    from tertium.recipes.lowshot import run_low_shot

    table = run_low_shot(
        names,
        output,
        sizes=numbers,
        seeds=seeds,
        steps=steps,
        data=data,
        jobs=jobs,
        say=note,
    )
    figure = low_shot_curves(table.averages)
    for ending in ("png", "svg"):
        figure.savefig(output / f"curves.{ending}", dpi=150)
    if as_json:
        emit(table.to_json())
    else:
        say(str(table))
        note(f"{output}: table.md, table.json, curves.png, curves.svg")
