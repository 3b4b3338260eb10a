"""``tertium train`` and ``tertium recipes``."""

import sys
from pathlib import Path

import typer

from tertium.cli.output import JSON, emit, note

__all__ = ["recipes", "train"]


def train(
    recipe: str = typer.Argument(help="A recipe's name (see tertium recipes) or a YAML file."),
    pairs: Path | None = typer.Argument(
        None, help="Your own graded pairs instead of the recipe's."
    ),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the model."),
    data: Path | None = typer.Option(None, help="Benchmark folder (default: TERTIUM_DATA)."),
    resume: bool = typer.Option(False, "--resume", help="Go on after an interruption."),
    seed: int | None = typer.Option(None, help="Replaces the recipe's seed."),
    set_: list[str] = typer.Option([], "--set", help="Override a setting: a.b=value; repeatable."),
    evaluation: bool = typer.Option(True, help="Evaluate on STS at the end, if data are found."),
    as_json: bool = JSON,
) -> None:
    """Train a model by a recipe.

    Example: tertium train sts-regression-minilm -o my-model
    """
    from tertium.evaluation.provenance import current_command
    from tertium.recipes.train import train as run

    overrides = [*set_, *([f"stages.0.data.sources=[{{file: {str(pairs)!r}}}]"] if pairs else [])]
    trained = run(
        recipe,
        output,
        data=data,
        resume=resume,
        seed=seed,
        overrides=overrides,
        command=current_command(),
        evaluate_after=evaluation,
        progress=sys.stderr.isatty(),
    )
    if as_json:
        emit(
            {
                "model": str(trained.folder),
                "seconds": round(trained.seconds, 1),
                "log": trained.log,
                "report": None if trained.report is None else trained.report.to_json(),
            }
        )
        return
    if trained.report is not None:
        typer.echo(str(trained.report))
    note(f"{trained.folder}: trained in {trained.seconds / 60:.1f} minutes, see its README.md")


def recipes(
    name: str | None = typer.Argument(None, help="Explain this recipe."), as_json: bool = JSON
) -> None:
    """List the training recipes, or explain one.

    Example: tertium recipes sts-regression-minilm
    """
    from tertium.recipes.files import read_recipe, recipe_names

    if name is not None:
        _explain(name, as_json=as_json)
        return
    found = {known: read_recipe(known)[0] for known in recipe_names()}
    if as_json:
        rows = [
            {"name": known, "summary": recipe.summary, "published": recipe.published}
            for known, recipe in found.items()
        ]
        emit({"recipes": rows})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("recipe", "what it does", "paper's STS", box=None, pad_edge=False)
    for known, recipe in found.items():
        figure = "" if recipe.published is None else f"{recipe.published:.2f}"
        table.add_row(known, recipe.summary, figure)
    Console().print(table)


def _explain(name: str, *, as_json: bool) -> None:
    import yaml

    from tertium.recipes.files import read_recipe

    recipe, content = read_recipe(name)
    if as_json:
        emit(recipe.model_dump(mode="json"))
        return
    typer.echo(f"{recipe.summary}\n{recipe.source}\n")
    typer.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    typer.echo("Change a setting with --set, for instance --set stages.0.train.epochs=2")
