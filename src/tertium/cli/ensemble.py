"""``tertium ensemble``: several models as one."""

from pathlib import Path

import typer

from tertium.cli.output import JSON, emit, note

__all__ = ["ensemble"]


def ensemble(
    models: list[str] = typer.Argument(help="Reserved names, folders or hub ids."),
    output: Path = typer.Option(..., "--output", "-o", help="New folder for the ensemble."),
    weight: float | None = typer.Option(
        None, help="Of the last model; the others share the rest of 1 (default: a plain sum)."
    ),
    as_json: bool = JSON,
) -> None:
    """Write a model whose embedding is the sum of other models' embeddings.

    Example: tertium ensemble tower-1 tower-2 -o both
    """
    from tertium.files import check_new_folder
    from tertium.inference.combine import combine

    check_new_folder(output)
    model = combine(models, weight=weight)
    model.save(output)
    if as_json:
        emit(
            {
                "output": str(output),
                "members": [
                    {"name": member.encoder.name, "weight": member.weight}
                    for member in model.members
                ],
                "pooling": model.pooling,
                "dimension": model.dimension,
            }
        )
    else:
        shown = " + ".join(f"{m.weight:g} * {m.encoder.name}" for m in model.members)
        note(f"{output}: {shown}, vectors of width {model.dimension}")
