"""``tertium index``: texts in a folder that can be searched and extended."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import cell, count, show, table
from tertium.errors import TertiumError, unknown_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tertium.corpus import Index

__all__ = ["add", "app", "build", "search", "stats"]

app = typer.Typer(help="Search many texts by meaning.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of the index.")]


@app.command()
@options.grouped
def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the index.")],
    model: options.Model = "default",
    engine: options.Engine = "default",
    dtype: Annotated[
        str, typer.Option(help="float32, or int8: a quarter of the space, slightly less exact.")
    ] = "float32",
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Encode texts and store them with their vectors in a folder.

    Example: tertium index build sentences.txt -o my-index
    """
    from tertium.corpus.append import check_new_index
    from tertium.corpus.manifest import Dtype

    if dtype not in set(Dtype):
        raise unknown_name("dtype", dtype, [str(known) for known in Dtype])
    if output.exists():
        check_new_index(output)
    from tertium.corpus import Index
    from tertium.engines.loading import load_embedder

    given = corpus.stream()
    loaded = load_embedder(model, engine=engine)
    index = Index.build(output, given.pop("texts"), loaded, dtype=dtype, **given)
    _show_added(index, len(index), as_json=as_json)


@app.command()
@options.grouped
def add(
    index: Folder,
    model: options.IndexModel = None,
    engine: options.Engine = "default",
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Add texts to an index; until it has finished, searches see the index as it was.

    Example: tertium index add my-index more.txt
    """
    opened = _open(index, model, engine)
    given = corpus.stream()
    added = opened.add(given.pop("texts"), **given)
    _show_added(opened, added, as_json=as_json)


@app.command()
def search(
    index: Folder,
    queries: Annotated[list[str] | None, typer.Argument(help="Texts to look for.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            *("--queries",),
            help="File of texts to look for instead; needs --output.",
            callback=checks.file,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the hits: .tsv, .csv or .jsonl."),
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Number of hits per query.")] = 10,
    threshold: Annotated[
        float | None,
        typer.Option(help="Minimum cosine of a hit.", callback=checks.threshold),
    ] = None,
    model: options.IndexModel = None,
    engine: options.Engine = "default",
    column: options.Column = None,
    spreadsheet_safe: options.SafeCells = True,
    as_json: options.Json = False,
) -> None:
    """Find the texts of an index that are nearest to a query.

    Example: tertium index search my-index "A kitten is napping." --k 3
    """
    from tertium.corpus.inputs import TABLES
    from tertium.files import check_ending, check_outputs

    if (file is None) == (not queries):
        raise TertiumError("Give texts to look for, or a file of them with --queries.")
    if file is not None and output is None:
        raise TertiumError("Hits for a file of queries need a place: --output FILE.")
    if output is not None:
        check_ending(output, TABLES)
        check_outputs(file, output)
    opened = _open(index, model, engine)
    asked = queries or []
    if output is None:
        _show_hits(opened, asked, k=k, threshold=threshold, as_json=as_json)
        return
    from tertium.corpus.inputs import table as write_table
    from tertium.data.readers import iter_texts
    from tertium.models.tokens import chunks
    from tertium.progress import bar

    total = 0
    columns = ("query", "rank", "id", "text", "similarity")
    texts = asked if file is None else iter_texts(file, column=column)
    with (
        write_table(output, columns, spreadsheet_safe=spreadsheet_safe) as write,
        bar(total=None, label="searching", unit="query") as shown,
    ):
        for window in chunks(texts, 1024):
            found = opened.search_many(window, k=k, threshold=threshold, progress=False)
            for query, hits in zip(window, found, strict=True):
                for rank, hit in enumerate(hits, 1):
                    write((query, rank, hit.id, hit.text, hit.score))
            total += len(window)
            shown.update(len(window))
    show(
        {"index": str(index), "output": str(output), "queries": total},
        as_json=as_json,
        notes=f"{output}: hits for {'1 query' if total == 1 else f'{total:,} queries'}",
    )


@app.command()
def stats(
    index: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Read every file and compare its hash.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show what an index holds; with --check, whether it is intact.

    Example: tertium index stats my-index
    """
    checks.index(index)
    from tertium.corpus import Index

    opened = Index.open(index)
    if check:
        opened.check()
    summary = _summary(opened) | {"checked": check}
    rows = [
        (key, name, f"{item:,}" if type(item) is int else str(item))
        for key, value in summary.items()
        for name, item in (value.items() if isinstance(value, dict) else [("", value)])
        if item is not None
    ]
    show(summary, table((), rows), as_json=as_json)


def _open(index: Path, model: str | None, engine: str) -> "Index":
    checks.index(index)
    from tertium.corpus import Index
    from tertium.engines.loading import load_embedder

    opened = Index.open(index, engine=engine)  # fails before a model is loaded in vain
    if model is None:
        return opened
    return Index.open(index, load_embedder(model, engine=engine))


def _summary(index: "Index") -> dict[str, Any]:
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
        "bytes": sum(record.size for record in manifest.files().values()),
    }


def _show_added(index: "Index", added: int, *, as_json: bool) -> None:
    recall = index.manifest.recall
    quality = "exact search" if recall is None else f"recall@{recall.at} {recall.value:.3f}"
    new = f", {added:,} of them new" if added < len(index) else ""
    message = f"{index.folder}: {count(len(index), 'text')}{new}, {quality}"
    show(_summary(index) | {"added": added}, as_json=as_json, notes=message)


def _show_hits(
    index: "Index", queries: list[str], *, k: int, threshold: float | None, as_json: bool
) -> None:
    found = index.search_many(queries, k=k, threshold=threshold)
    document = {
        "index": str(index.folder),
        "queries": [
            {
                "query": query,
                "hits": [{"id": hit.id, "text": hit.text, "score": hit.score} for hit in hits],
            }
            for query, hits in zip(queries, found, strict=True)
        ],
    }
    lines: list[RenderableType] = []
    for query, hits in zip(queries, found, strict=True):
        rows = [(f"{hit.score:.3f}", hit.id, hit.text) for hit in hits]
        lines += [cell(query, style="bold"), table(("cosine", "id", "text"), rows)]
    show(document, *lines, as_json=as_json)
