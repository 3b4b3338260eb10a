"""``tertium train`` and ``tertium recipes``."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON, emit, note, say

if TYPE_CHECKING:
    from tertium.recipes.train import Trained

__all__ = ["recipes", "show_trained", "train"]


def train(
    recipe: str = typer.Argument(
        help="A recipe's name (see tertium recipes) or a YAML file.", callback=checks.recipe
    ),
    pairs: Path | None = typer.Argument(
        None, help="Your own graded pairs instead of the recipe's.", callback=checks.file
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the model."),
    texts: Path | None = typer.Option(
        None, help="Your own texts instead of the recipe's.", callback=checks.file
    ),
    data: Path | None = DATA,
    resume: bool = typer.Option(False, "--resume", help="Go on after an interruption."),
    seed: int | None = typer.Option(None, help="Replaces the recipe's seed."),
    set_: list[str] = typer.Option([], "--set", help="Override a setting: a.b=value; repeatable."),
    evaluation: bool = typer.Option(True, help="Evaluate on STS at the end, if data are found."),
    strict_data: bool = typer.Option(
        False, "--strict-data", help="Fail where less data is found than the recipe asks for."
    ),
    as_json: bool = JSON,
) -> None:
    """Train a model by a recipe.

    Example: tertium train sts-regression-minilm -o my-model
    """
    from tertium.recipes.files import check_run, own_data, read_content

    check_run(output, resume=resume)
    read_content(recipe, overrides=set_)
    from tertium.evaluation.provenance import current_command
    from tertium.recipes.train import train as run

    trained = run(
        recipe,
        output,
        data=data,
        resume=resume,
        seed=seed,
        overrides=[*own_data(recipe, pairs=pairs, texts=texts), *set_],
        command=current_command(),
        evaluate_after=evaluation,
        strict_data=strict_data,
    )
    show_trained(trained, as_json=as_json)


def show_trained(trained: "Trained", *, as_json: bool) -> None:
    """What a training ends with."""
    if not trained.leads:
        return
    if as_json:
        emit(
            {
                "model": str(trained.folder),
                "seconds": round(trained.seconds, 1),
                "data": {stage: amount.to_json() for stage, amount in trained.data.items()},
                "log": {stage: [_finite(e) for e in log] for stage, log in trained.log.items()},
                "report": None if trained.report is None else trained.report.to_json(),
            }
        )
        return
    if trained.report is not None:
        say(str(trained.report))
        for stage, amount in trained.data.items():
            if amount.partial:
                say(f"stage {stage} ran on {amount}")
    note(f"{trained.folder}: trained in {trained.seconds / 60:.1f} minutes, see its README.md")


def recipes(
    name: str | None = typer.Argument(None, help="Explain this recipe."), as_json: bool = JSON
) -> None:
    """List the training recipes, or explain one.

    Example: tertium recipes sts-regression-minilm
    """
    from tertium.recipes.files import read_recipe, recipe_names
    from tertium.recipes.sweep import read_sweep, sweep_names

    if name is not None:
        _explain(name, as_json=as_json)
        return
    found = {known: read_recipe(known)[0] for known in recipe_names()}
    sweeps = {known: read_sweep(known).summary for known in sweep_names()}
    if as_json:
        rows = [
            {"name": known, "summary": recipe.summary, "published": recipe.published}
            for known, recipe in found.items()
        ]
        sweep_rows = [{"name": known, "summary": text} for known, text in sweeps.items()]
        emit({"recipes": rows, "sweeps": sweep_rows})
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    table.add_column("recipe", no_wrap=True, overflow="fold")
    table.add_column("what it does")
    table.add_column("in the paper", justify="right")
    for known, recipe in found.items():
        figure = "" if recipe.published is None else f"{recipe.published:.2f}"
        table.add_row(known, recipe.summary, figure)
    console.print(table)
    table = Table(box=None, pad_edge=False)
    table.add_column("sweep", no_wrap=True, overflow="fold")
    table.add_column("what it compares")
    for known, summary in sweeps.items():
        table.add_row(known, summary)
    console.print()
    console.print(table)


def _explain(name: str, *, as_json: bool) -> None:
    import yaml

    from tertium.recipes.files import read_recipe

    recipe, content = read_recipe(name)
    if as_json:
        emit(recipe.model_dump(mode="json"))
        return
    say(f"{recipe.summary}\n{recipe.source}\n")
    say(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    say("Change a setting with --set, for instance --set stages.0.train.epochs=2")


def _finite(entry: dict[str, float]) -> dict[str, float | None]:
    """A log entry as JSON can hold it: NaN and infinity become null."""
    return {key: value if math.isfinite(value) else None for key, value in entry.items()}
