"""``tertium train``, ``distil``, ``sweep``, ``lowshot`` and ``recipes``."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import interruptible, note, save_figures, show, table
from tertium.errors import TertiumError, require

if TYPE_CHECKING:
    from tertium.data.shapes import Recognised
    from tertium.recipes.files import RecipeSource
    from tertium.recipes.train import Trained

__all__ = ["distil", "lowshot", "recipes", "sweep", "train"]

_KEPT = ("finished stages and checkpoints", "rerun the command with --resume")

ModelFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder for the model.")]


@options.grouped
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="FILE|RECIPE",
            help="Your own data, from whose shape a recipe is chosen; or a recipe's name (see "
            "tertium recipes), or a YAML file.",
            callback=checks.recipe_or_data,
        ),
    ],
    output: ModelFolder,
    pairs: Annotated[
        Path | None,
        typer.Argument(
            help="Your own graded pairs, instead of the recipe's.", callback=checks.file
        ),
    ] = None,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help="For your own data: the recipe to train with (default: chosen by their shape).",
            callback=checks.recipe,
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Your own texts, one per line or a table (default: the recipe's).",
            callback=checks.file,
        ),
    ] = None,
    data: options.DataOrHub = None,
    resume: options.Resume = False,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of every stage (default: the recipe's).")
    ] = None,
    set_: options.Overrides = [],
    evaluation: options.Evaluation = True,
    strict_data: options.StrictData = False,
    trust_remote_code: options.TrustRemoteCode = False,
    *,
    shape: options.DataShape,
    as_json: options.Json = False,
) -> None:
    """Train a model on your own data, or with a recipe.

    Example: tertium train my_pairs.tsv -o my-model
    """
    from tertium.recipes.files import check_run, own_data, parse_settings, read_content

    check_run(output, resume=resume)
    settings = parse_settings(set_)
    if trust_remote_code:
        settings["encoder.trust_remote_code"] = True
    given: RecipeSource = recipe
    if checks.is_data(recipe):
        if pairs is not None or texts is not None:
            raise TertiumError("The first file is already the data: omit the other one.")
        given, own = _choose(shape.recognise(Path(recipe)), chosen)
    elif chosen is not None or shape:
        raise TertiumError(
            f"{recipe} is a recipe: --recipe and options for columns apply only to a data file."
        )
    else:
        own = own_data(recipe, pairs=pairs, texts=texts)
    read_content(given, settings={**own, **settings})
    from tertium.evaluation.report import current_command
    from tertium.recipes.train import train as run

    with interruptible(*_KEPT):
        trained = run(
            given,
            output,
            data=data,
            resume=resume,
            seed=seed,
            settings={**own, **settings},
            command=current_command(),
            evaluate_after=evaluation,
            strict_data=strict_data,
        )
    _show_trained(trained, as_json=as_json)


def _choose(found: "Recognised", recipe: str | None) -> "tuple[RecipeSource, dict[str, Any]]":
    """The recipe for a file; prints what the file is, which recipe is used, and why."""
    from tertium.recipes.choose import choose

    note(str(found))
    for text in found.notes:
        note(f"{found.file}: {text}")
    choice = choose(found, recipe=recipe)
    for reason in choice.reasons:
        note(reason)
    return choice.recipe, choice.settings


def distil(
    teachers: Annotated[
        list[str],
        typer.Argument(
            help="Models whose embeddings are learned: their sum.", callback=checks.model
        ),
    ],
    texts: Annotated[
        Path,
        typer.Option(help="Texts to learn from, one per line or a table.", callback=checks.file),
    ],
    output: ModelFolder,
    student: Annotated[
        str, typer.Option(help="Model to start from.", callback=checks.model)
    ] = "default",
    weight: options.Weight = None,
    keep_projection: Annotated[
        bool,
        typer.Option(
            "--keep-projection", help="If widths differ, keep the layer that maps one to the other."
        ),
    ] = False,
    pooling: Annotated[
        str | None,
        typer.Option(help="Pooling of the student (default: its own).", callback=checks.pooling),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=2, help="Tokens the student reads (default: its own limit).")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Keep N of the student's layers, as 3, or those named, as 1,3,6 (default: all)."
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the texts (default: 1).")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimiser steps, instead of epochs.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Texts per step (default: 64).")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the top layer (default: 5e-5).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed for data order and dropout (default: 42).")
    ] = None,
    data: options.DataOrHub = None,
    resume: options.Resume = False,
    set_: options.Overrides = [],
    evaluation: options.Evaluation = True,
    as_json: options.Json = False,
) -> None:
    """Train one model to reproduce the embeddings of another, or the sum of several.

    Example: tertium distil tower-1 tower-2 --student default --texts sentences.txt -o one
    """
    from tertium.models.mixture import member_weights
    from tertium.recipes.files import check_run, parse_settings

    check_run(output, resume=resume)
    member_weights(len(teachers), weight)
    kept = None if layers is None else _layers(layers)
    from tertium.evaluation.report import current_command
    from tertium.recipes.distil import distil as run

    given = {
        "epochs": epochs,
        "max_steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
    }
    with interruptible(*_KEPT):
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
            schedule={name: value for name, value in given.items() if value is not None},
            settings=parse_settings(set_),
            data=data,
            resume=resume,
            seed=seed,
            command=current_command(),
            evaluate_after=evaluation,
        )
    _show_trained(trained, as_json=as_json)


def sweep(
    file: Annotated[
        str,
        typer.Argument(
            help="A sweep's name, or a YAML file with recipe, runs and seeds.",
            callback=checks.sweep,
        ),
    ],
    output: options.RunFolder,
    data: options.DataOrHub = None,
    jobs: options.Jobs = 1,
    settings: options.Overrides = [],
    keep_models: Annotated[bool, typer.Option(help="Keep every run's weights.")] = False,
    strict_data: options.StrictData = False,
    as_json: options.Json = False,
) -> None:
    """Run every variant of a sweep with every seed; finished runs are skipped.

    Example: tertium sweep sts-regression-minilm-losses -o sweeps/losses
    """
    from tertium.recipes.files import parse_settings
    from tertium.recipes.sweep import run_sweep

    found = run_sweep(
        file,
        output,
        data=data,
        jobs=jobs,
        keep_models=keep_models,
        strict_data=strict_data,
        settings=parse_settings(settings),
        say=note,
    )
    show(found.to_json(), str(found), as_json=as_json)


def lowshot(
    recipes: Annotated[
        str, typer.Argument(help="Recipes that learn from texts, separated by commas.")
    ],
    output: options.RunFolder,
    sizes: Annotated[
        str, typer.Option(help="Numbers of sentences, separated by commas.")
    ] = "100,1000,10000",
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds per recipe and size; each draws its own sentences.")
    ] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Optimiser steps of every run.")] = 50,
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="Override a setting of all runs, as a.b=value; RECIPE:a.b=value, "
            "@SIZE:a.b=value or RECIPE@SIZE:a.b=value of some; may be repeated.",
        ),
    ] = [],
    data: options.DataOrHub = None,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Train recipes on few sentences, with equal steps; ends with a table and a plot.

    Example: tertium lowshot simcse-minilm,micse-minilm --sizes 100,1000 --seeds 2 -o lowshot
    """
    require("report", purpose="The plot of tertium lowshot", packages=("matplotlib",))
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise TertiumError(f"--sizes {sizes}: write whole numbers, separated by commas.") from None
    if min(numbers) < 1:
        raise TertiumError(f"--sizes {sizes}: a run needs at least one sentence.")
    names = [checks.recipe(recipe.strip()) for recipe in recipes.split(",")]
    from tertium.analysis import low_shot_curves
    from tertium.recipes.lowshot import run_low_shot

    found = run_low_shot(
        names,
        output,
        sizes=numbers,
        seeds=seeds,
        steps=steps,
        settings=set_,
        data=data,
        jobs=jobs,
        say=note,
    )
    files = save_figures({"curves": low_shot_curves(found.averages)}, output)
    written = ", ".join(["table.md", "table.json", *(file.name for file in files)])
    show(found.to_json(), str(found), as_json=as_json, notes=f"{output}: {written}")


def recipes(
    name: Annotated[str | None, typer.Argument(help="Explain this recipe.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the training recipes, or explain one.

    Example: tertium recipes sts-regression-minilm
    """
    from tertium.recipes.files import read_recipe, recipe_names
    from tertium.recipes.sweep import read_sweep, sweep_names

    if name is not None:
        recipe = read_recipe(name)
        show(
            recipe.model_dump(mode="json"),
            f"{recipe.summary}\n{recipe.source}\n",
            recipe.to_yaml(),
            "Change a setting with --set, for instance --set stages.0.train.epochs=2",
            as_json=as_json,
        )
        return
    found = {known: read_recipe(known) for known in recipe_names()}
    sweeps = {known: read_sweep(known).summary for known in sweep_names()}
    document = {
        "recipes": [
            {"name": known, "summary": recipe.summary, "published": recipe.published}
            for known, recipe in found.items()
        ],
        "sweeps": [{"name": known, "summary": text} for known, text in sweeps.items()],
    }
    figures = {k: "" if r.published is None else f"{r.published:.2f}" for k, r in found.items()}
    show(
        document,
        table(
            ("recipe", "what it does", "in the paper"),
            [(known, recipe.summary, figures[known]) for known, recipe in found.items()],
            right=("in the paper",),
            whole=("recipe",),
        ),
        "",
        table(("sweep", "what it compares"), list(sweeps.items()), whole=("sweep",)),
        as_json=as_json,
    )


def _show_trained(trained: "Trained", *, as_json: bool) -> None:
    if not trained.leads:
        return
    document = {
        "model": str(trained.folder),
        "seconds": round(trained.seconds, 1),
        "data": {stage: amount.to_json() for stage, amount in trained.data.items()},
        "log": {stage: [_finite(e) for e in log] for stage, log in trained.log.items()},
        "report": None if trained.report is None else trained.report.to_json(),
    }
    lines = []
    if trained.report is not None:
        partial = {stage: amount for stage, amount in trained.data.items() if amount.partial}
        lines = [
            str(trained.report),
            *(f"stage {s} ran on {amount}" for s, amount in partial.items()),
        ]
    minutes = f"{trained.seconds / 60:.1f} minutes"
    show(
        document,
        *lines,
        as_json=as_json,
        notes=f"{trained.folder}: trained in {minutes}, see its README.md",
    )


def _finite(entry: dict[str, float]) -> dict[str, float | None]:
    """A log entry for JSON: NaN and infinity become null."""
    return {key: value if math.isfinite(value) else None for key, value in entry.items()}


def _layers(given: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in given.split(",")]
    except ValueError:
        raise TertiumError(
            f"--layers {given}: give how many to keep, such as 3, or which, such as 1,3,6."
        ) from None
    return numbers if "," in given else numbers[0]
