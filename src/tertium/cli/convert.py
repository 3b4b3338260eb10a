"""``tertium convert``: any model as a sentence-transformers folder."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import JSON, emit, note

__all__ = ["convert"]


def convert(
    source: str = typer.Argument(help="Folder of a training script, any other folder, or hub id."),
    output: Path = typer.Option(
        *(..., "--output", "-o"), help="New folder for the model.", callback=checks.new_folder
    ),
    pooling: str | None = typer.Option(
        None,
        help="cls leaves a trained MLP out, cls_mlp keeps it (default: the model's own).",
        callback=checks.pooling,
    ),
    towers: bool = typer.Option(
        False, "--towers", help="Write the two towers of a twin as two plain encoders."
    ),
    revision: str | None = typer.Option(None, help="Branch, tag or commit of a hub model."),
    as_json: bool = JSON,
) -> None:
    """Write a model as an ordinary sentence-transformers folder with safetensors.

    Example: tertium convert result/my-sup-simcse -o my-model --pooling cls_mlp
    """
    from tertium.models.names import resolve

    if towers and pooling is not None:
        raise typer.BadParameter("a twin's towers keep their pooling: leave --pooling out")
    resolve(source, revision=revision)
    from tertium.models.convert import convert as write
    from tertium.models.convert import write_towers

    if towers:
        written = [str(folder) for folder in write_towers(source, output, revision=revision)]
        if as_json:
            emit({"source": source, "towers": written})
        else:
            note(" and ".join(written))
        return
    model = write(source, output, pooling=pooling, revision=revision)
    if as_json:
        emit(
            {
                "source": source,
                "output": str(output),
                "pooling": model.pooling,
                "dimension": model.dimension,
            }
        )
    else:
        note(f"{output}: pooling {model.pooling}, vectors of width {model.dimension}")
