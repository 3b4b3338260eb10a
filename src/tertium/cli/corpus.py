"""What commands over many texts share: their options, and texts with a source of vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tertium.cli import checks

if TYPE_CHECKING:
    from tertium.corpus.embed import Source

__all__ = [
    "COLUMN",
    "ID_COLUMN",
    "METHOD",
    "TEXTS",
    "VECTORS",
    "Corpus",
    "read",
    "source",
]

TEXTS = typer.Argument(
    help="Text file, one text a line, or TSV, CSV, JSONL, Parquet.", callback=checks.file
)
COLUMN = typer.Option(None, help="Column of a table that holds the texts.")
ID_COLUMN = typer.Option(None, help="Column of ids (default: rows are numbered from 1).")
VECTORS = typer.Option(
    None,
    help="What encode made of these texts, a .npy file or a folder, to save encoding.",
    callback=checks.vectors,
)
METHOD = typer.Option(
    "auto",
    help="exact, hnsw (faster for very many texts, may overlook some) or auto.",
    callback=checks.method,
)


@dataclass(frozen=True)
class Corpus:
    """Texts and their ids."""

    texts: list[str]
    ids: list[str]


def read(texts: Path, column: str | None, id_column: str | None) -> Corpus:
    """Read a file of texts."""
    from tertium.corpus.inputs import read_corpus

    return Corpus(*read_corpus(texts, column=column, id_column=id_column))


def source(model: str, engine: str, vectors: Path | None, texts: list[str]) -> "Source":
    """The stored vectors of ``texts``, or the model that makes them."""
    from tertium.corpus.rows import read_vectors
    from tertium.models.loading import load_embedder

    if vectors is not None:
        return read_vectors(vectors, texts=texts)
    return load_embedder(model, engine=engine)
