"""``tertium encode``: vectors for every text of a file."""

from pathlib import Path

import typer

from tertium.cli.output import JSON, MODEL, emit, note

__all__ = ["encode"]


def encode(
    texts: Path = typer.Argument(help="Text file, one text a line, or TSV, CSV, JSONL, Parquet."),
    output: Path = typer.Option(..., "--output", "-o", help="Where to write: .npy or .parquet."),
    model: str = MODEL,
    column: str | None = typer.Option(None, help="Column of a table to encode."),
    normalize: bool = typer.Option(False, "--normalize", help="Scale vectors to length 1."),
    as_json: bool = JSON,
) -> None:
    """Encode texts into vectors, in constant memory; row i of the output is text i.

    Example: tertium encode sentences.txt -o vectors.npy
    """
    from tertium.data.readers import iter_texts
    from tertium.inference.loading import load_embedder
    from tertium.inference.writers import write_vectors

    encoder = load_embedder(model)
    rows = write_vectors(
        encoder, lambda: iter_texts(texts, column=column), output, normalize=normalize
    )
    if as_json:
        emit({"output": str(output), "rows": rows, "dimension": encoder.dimension})
    else:
        note(f"{output}: {rows:,} vectors of width {encoder.dimension}")
