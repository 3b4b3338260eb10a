"""``tertium ensemble``: several models as one."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import JSON, emit, note

__all__ = ["ensemble"]


def ensemble(
    models: list[str] = typer.Argument(
        help="Reserved names, folders or hub ids.", callback=checks.models
    ),
    output: Path = typer.Option(
        *(..., "--output", "-o"), help="New folder for the ensemble.", callback=checks.new_folder
    ),
    weight: float | None = typer.Option(
        None, help="Of the last model; the others share the rest of 1 (default: a plain sum)."
    ),
    as_json: bool = JSON,
) -> None:
    """Write a model whose embedding is the sum of other models' embeddings.

    Models that take a condition are combined by the mean of their answers.

    Example: tertium ensemble tower-1 tower-2 -o both
    """
    from tertium.models.shares import member_weights

    member_weights(len(models), weight)
    from tertium.models.combine import average, combine
    from tertium.models.names import takes_conditions

    if takes_conditions(models[0]):
        graders = average(models, weight=weight)
        graders.save(output)
        members = [
            (member.name, share)
            for member, share in zip(graders.members, graders.weights, strict=True)
        ]
        found: dict[str, object] = {"scale": list(graders.scale)}
        gives = "scores on {:g}..{:g}".format(*graders.scale)
    else:
        encoders = combine(models, weight=weight)
        encoders.save(output)
        members = [(member.encoder.name, member.weight) for member in encoders.members]
        found = {"pooling": encoders.pooling, "dimension": encoders.dimension}
        gives = f"vectors of width {encoders.dimension}"
    if as_json:
        listed = [{"name": name, "weight": weight} for name, weight in members]
        emit({"output": str(output), "members": listed, **found})
    else:
        shown = " + ".join(f"{weight:g} * {name}" for name, weight in members)
        note(f"{output}: {shown}, {gives}")
