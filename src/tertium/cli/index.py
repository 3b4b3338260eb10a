"""``tertium index``: texts in a folder that can be searched and added to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli import checks, corpus, hits
from tertium.cli.output import ENGINE, JSON, MODEL, SAFE_CELLS, cell, emit, note

if TYPE_CHECKING:
    from tertium.corpus import TextIndex

__all__ = ["add", "app", "build", "search", "stats"]

app = typer.Typer(help="Search many texts by meaning.", no_args_is_help=True)

_FOLDER = typer.Argument(help="Folder of the index.")
_OWN = typer.Option(
    *(None, "--model", "-m"),
    help="The model that built the index (default: loaded by its name).",
    callback=checks.model,
)


@app.command()
def build(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(..., "--output", "-o", help="New folder for the index."),
    model: str = MODEL,
    engine: str = ENGINE,
    dtype: str = typer.Option("float32", help="float32, or int8 for a quarter of the space."),
    vectors: Path | None = corpus.VECTORS,
    column: str | None = corpus.COLUMN,
    id_column: str | None = corpus.ID_COLUMN,
    as_json: bool = JSON,
) -> None:
    """Encode texts and keep them with their vectors in a folder.

    Example: tertium index build sentences.txt -o my-index
    """
    from tertium.corpus.lock import check_new_index
    from tertium.corpus.manifest import Dtype
    from tertium.errors import unknown_name

    if dtype not in set(Dtype):
        raise unknown_name("dtype", dtype, [str(known) for known in Dtype])
    if output.exists():
        check_new_index(output)
    from tertium.corpus import TextIndex
    from tertium.models.loading import load_embedder

    given = _given(texts, vectors, column, id_column)
    loaded = load_embedder(model, engine=engine)
    index = TextIndex.build(output, given.pop("texts"), loaded, dtype=dtype, **given)
    _report(index, len(index), as_json=as_json)


@app.command()
def add(
    index: Path = _FOLDER,
    texts: Path = corpus.TEXTS,
    model: str | None = _OWN,
    engine: str = ENGINE,
    vectors: Path | None = corpus.VECTORS,
    column: str | None = corpus.COLUMN,
    id_column: str | None = corpus.ID_COLUMN,
    as_json: bool = JSON,
) -> None:
    """Add texts to an index; until it has ended, searches see the index as it was.

    Example: tertium index add my-index more.txt
    """
    opened = _open(index, model, engine)
    given = _given(texts, vectors, column, id_column)
    added = opened.add(given.pop("texts"), **given)
    _report(opened, added, as_json=as_json)


@app.command()
def search(
    index: Path = _FOLDER,
    queries: list[str] | None = typer.Argument(None, help="Texts to look for."),
    file: Path | None = typer.Option(
        *(None, "--queries"),
        help="File of texts to look for, instead; needs --output.",
        callback=checks.file,
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Write what is found: .tsv, .csv or .jsonl."
    ),
    k: int = typer.Option(10, min=1, help="How many texts for a query, or all if there are fewer."),
    threshold: float | None = typer.Option(
        None, help="Leave out what has a smaller cosine.", callback=checks.threshold
    ),
    model: str | None = _OWN,
    engine: str = ENGINE,
    column: str | None = typer.Option(None, help="Column of the file of queries."),
    spreadsheet_safe: bool = SAFE_CELLS,
    as_json: bool = JSON,
) -> None:
    """Find the texts of an index that are nearest to a query.

    Example: tertium index search my-index "A kitten is napping." --k 3
    """
    from tertium.corpus.inputs import TABLES
    from tertium.errors import TertiumError
    from tertium.files import check_ending, check_outputs

    if (file is None) == (not queries):
        raise TertiumError("Give texts to look for, or a file of them with --queries.")
    if file is not None and output is None:
        raise TertiumError("What is found for a file of queries needs a place: --output FILE.")
    if output is not None:
        check_ending(output, TABLES)
        check_outputs(file, output)
    opened = _open(index, model, engine)
    if output is not None:
        count = hits.write(
            opened,
            queries or [],
            file,
            column,
            output,
            k=k,
            threshold=threshold,
            spreadsheet_safe=spreadsheet_safe,
        )
        if as_json:
            emit({"index": str(index), "output": str(output), "queries": count})
        else:
            note(f"{output}: what was found for {count:,} queries")
        return
    asked = queries or []
    found = opened.search_many(asked, k=k, threshold=threshold)
    if as_json:
        emit({"index": str(index), "queries": hits.listed(asked, found)})
    else:
        hits.show(asked, found)


@app.command()
def stats(
    index: Path = _FOLDER,
    check: bool = typer.Option(False, "--check", help="Read every file and compare its hash."),
    as_json: bool = JSON,
) -> None:
    """Show what an index holds; with --check, whether it is whole.

    Example: tertium index stats my-index
    """
    checks.index(index)
    from tertium.corpus import TextIndex

    opened = TextIndex.open(index)
    if check:
        opened.check()
    summary = _summary(opened) | {"checked": check}
    if as_json:
        emit(summary)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in summary.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for name, item in inner:
            if item is not None:
                shown = f"{item:,}" if type(item) is int else str(item)
                table.add_row(key, name, cell(shown))
    Console().print(table)


def _given(
    texts: Path, vectors: Path | None, column: str | None, id_column: str | None
) -> dict[str, Any]:
    """A file as what an index takes."""
    from tertium.corpus.inputs import iter_ids
    from tertium.corpus.rows import read_vectors
    from tertium.data.readers import iter_texts

    again = iter_texts(texts, column=column)  # compared with those that the vectors were made of
    return {
        "texts": iter_texts(texts, column=column),
        "ids": None if id_column is None else iter_ids(texts, id_column),
        "vectors": None if vectors is None else read_vectors(vectors, texts=again),
    }


def _open(index: Path, model: str | None, engine: str) -> "TextIndex":
    checks.index(index)
    from tertium.corpus import TextIndex
    from tertium.models.loading import load_embedder

    opened = TextIndex.open(index, engine=engine)  # before a model is loaded for nothing
    if model is None:
        return opened
    return TextIndex.open(index, load_embedder(model, engine=engine))


def _summary(index: "TextIndex") -> dict[str, Any]:
    manifest = index.manifest
    recall = manifest.recall
    return {
        "index": str(index.folder),
        "texts": len(index),
        "model": manifest.model.model_dump(),
        "dtype": manifest.dtype,
        "search": "exact" if manifest.graph is None else "hnsw",
        "recall": None if recall is None else recall.model_dump(),
        "segments": len(manifest.segments),
        "bytes": sum(record.bytes for record in manifest.files().values()),
    }


def _report(index: "TextIndex", added: int, *, as_json: bool) -> None:
    if as_json:
        emit(_summary(index) | {"added": added})
        return
    recall = index.manifest.recall
    found = "exact search" if recall is None else f"recall@{recall.at} {recall.value:.3f}"
    new = f", {added:,} of them new" if added < len(index) else ""
    note(f"{index.folder}: {len(index):,} texts{new}, {found}")
