"""``tertium index``: texts in a folder that can be searched, filtered, changed and exported."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.command import Command
from tertium.cli.output import cell, count, show, table, verdict_cells
from tertium.errors import TertiumError, unknown_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tertium.corpus import Index
    from tertium.records.decision import Decision
    from tertium.types import Hit

__all__ = ["add", "app", "build", "compact", "delete", "export", "search", "stats", "update"]

app = typer.Typer(help="Search many texts by meaning.", no_args_is_help=True)

_TO_DELETE = "to delete it: tertium index delete INDEX ID"
_DEAD = 0.3  # share of dead vectors from which a note says how to be rid of them

Folder = Annotated[Path, typer.Argument(help="Folder of the index.")]
Where = Annotated[
    str | None,
    typer.Option(help="Only texts that meet this filter: \"year >= 2020 AND lang = 'en'\"."),
]
Passages = Annotated[
    bool,
    typer.Option(
        "--passages/--beginning",
        help="Cut texts that are longer than the model reads into passages, or read only their "
        "beginning.",
    ),
]


@app.command(cls=Command)
@options.grouped
def build(
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for the index.")],
    model: options.Model = "default",
    engine: options.Engine = "default",
    dtype: Annotated[
        str, typer.Option(help="float32, or int8: a quarter of the space, slightly less exact.")
    ] = "float32",
    truncate_dim: options.TruncateDim = None,
    passages: Passages = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Encode texts and store them with their columns and vectors in a folder.

    Example: tertium index build sentences.txt -o my-index
    """
    from tertium.corpus.store import Dtype
    from tertium.corpus.write import check_new_index

    if dtype not in set(Dtype):
        raise unknown_name("dtype", dtype, [str(known) for known in Dtype])
    if output.exists():
        check_new_index(output)
    from tertium.corpus import Index
    from tertium.engines.loading import load_embedder

    given = corpus.stream()
    loaded = load_embedder(model, engine=engine, truncate_dim=truncate_dim)
    texts = given.pop("texts")
    index = Index.build(output, texts, loaded, dtype=dtype, passages=passages, **given)
    _show_added(index, len(index), as_json=as_json)


@app.command(cls=Command)
@options.grouped
def add(
    index: Folder,
    model: options.IndexModel = None,
    engine: options.Engine = "default",
    passages: Passages = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Add texts to an index; until it has finished, searches see the index as it was.

    Example: tertium index add my-index more.txt
    """
    opened = _open(index, model, engine)
    given = corpus.stream()
    added = opened.add(given.pop("texts"), passages=passages, **given)
    _show_added(opened, added, as_json=as_json)


@app.command(cls=Command)
def update(
    index: Folder,
    texts: Annotated[
        Path | None,
        typer.Argument(help="Table of texts with their ids.", callback=checks.file),
    ] = None,
    column: options.Column = None,
    id_column: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    where: Where = None,
    settings: Annotated[
        list[str],
        typer.Option("--set", help="With --where, write a column: name=value; may be repeated."),
    ] = [],
    model: options.IndexModel = None,
    engine: options.Engine = "default",
    passages: Passages = True,
    as_json: options.Json = False,
) -> None:
    """Replace texts by their ids and add new ones, or write columns of texts that meet a filter.

    Only texts that changed are encoded.

    Example: tertium index update my-index changed.csv --id-column id
    """
    if (texts is None) == (where is None) or (where is None) != (not settings):
        raise TertiumError("Give a table of texts, or a filter with --where and values with --set.")
    from tertium.corpus import Updated

    opened = _open(index, model, engine)
    if texts is None:
        assert where is not None
        found = Updated(columns=opened.set_columns(_settings(settings), where=where))
        message = f"{index}: columns of {count(found.columns, 'text')} written"
    else:
        from tertium.corpus.inputs import iter_columns, iter_filled, iter_ids

        found = opened.update(
            iter_filled(texts, column=column, remedy=_TO_DELETE),
            ids=iter_ids(texts, id_column),
            columns=iter_columns(texts, column=column, id_column=id_column),
            passages=passages,
        )
        message = (
            f"{index}: {found.changed:,} changed, {found.added:,} added, {found.columns:,} with "
            f"other columns only, {found.same:,} the same; {count(len(opened), 'text')}"
        )
    document = _summary(opened) | {"update": asdict(found)}
    show(document, as_json=as_json, notes=[message, *_dead_note(opened)])


@app.command(cls=Command)
def delete(
    index: Folder,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of texts.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--ids", help="File of ids instead, one per line.", callback=checks.file),
    ] = None,
    where: Where = None,
    as_json: options.Json = False,
) -> None:
    """Delete texts by their ids, or all that meet a filter.

    Example: tertium index delete my-index 17 42
    """
    if sum((bool(ids), file is not None, where is not None)) != 1:
        raise TertiumError("Say which texts: by their ids, by --ids FILE, or by --where FILTER.")
    from tertium.data.tables import read_lines

    opened = _open(index, None, "default")
    named = ids if file is None else [line for line in read_lines(file) if line]
    deleted = opened.delete(None if where is not None else named, where=where)
    message = f"{index}: {count(deleted, 'text')} deleted, {len(opened):,} left"
    document = _summary(opened) | {"deleted": deleted}
    show(document, as_json=as_json, notes=[message, *_dead_note(opened)])


@app.command(cls=Command)
def compact(index: Folder, as_json: options.Json = False) -> None:
    """Give back the space of deleted texts.

    Example: tertium index compact my-index
    """
    opened = _open(index, None, "default")
    saved = opened.compact()
    message = f"{index}: {count(len(opened), 'text')}, {_bytes(saved)} given back"
    show(_summary(opened) | {"saved": saved}, as_json=as_json, notes=message)


@app.command(cls=Command)
def export(
    index: Folder,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File to write, .parquet or .sql; of lance, a new folder."
        ),
    ],
    to: Annotated[str, typer.Option(help="parquet, lance or pgvector-sql.")] = "parquet",
    where: Where = None,
    name: Annotated[str, typer.Option("--table", help="Name of the table, in SQL.")] = "texts",
    as_json: options.Json = False,
) -> None:
    """Write texts, columns and vectors for another database.

    Example: tertium index export my-index --to parquet -o my-index.parquet
    """
    from tertium.corpus.export import ExportFormat, export_index

    if to not in set(ExportFormat):
        raise unknown_name("format", to, [str(known) for known in ExportFormat])
    opened = _open(index, None, "default")
    rows = export_index(opened, output, to, where=where, table=name)
    document = {"index": str(index), "output": str(output), "format": to, "rows": rows}
    show(document, as_json=as_json, notes=f"{output}: {count(rows, 'vector')} with their texts")


@app.command(cls=Command)
def search(
    index: Folder,
    queries: Annotated[list[str] | None, typer.Argument(help="Texts to look for.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            help="File of texts to look for instead; needs --output.",
            callback=checks.file,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the hits: .tsv, .csv or .jsonl."),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of hits per query.")] = 10,
    threshold: Annotated[
        float | None,
        typer.Option(help="Minimum cosine of a hit.", callback=checks.threshold),
    ] = None,
    where: Where = None,
    hybrid: Annotated[
        bool, typer.Option("--hybrid", help="Rank by meaning and by words together.")
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="Model that puts the first hits in order (default with --on: conditional).",
            callback=checks.model,
        ),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option("--on", metavar="CONDITION", help="Rerank the first hits by this condition."),
    ] = None,
    rerank_top: Annotated[int, typer.Option(min=1, help="How many hits that model is given.")] = 50,
    model: options.IndexModel = None,
    engine: options.Engine = "default",
    column: options.Column = None,
    spreadsheet_safe: options.SafeCells = True,
    as_json: options.Json = False,
) -> None:
    """Find the texts of an index that are nearest to a query.

    Example: tertium index search my-index "A kitten is napping." --top-k 3
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
    chosen: dict[str, Any] = {
        "top_k": top_k,
        "threshold": threshold,
        "where": where,
        "hybrid": hybrid,
    }
    if rerank is not None or condition is not None:
        from tertium.engines.loading import load

        loaded = load(rerank or "conditional", engine=engine)
        chosen |= {"rerank": loaded, "on": condition, "rerank_top": rerank_top}
    asked = queries or []
    if output is None:
        _show_hits(opened, asked, chosen, as_json=as_json)
        return
    from tertium.corpus.inputs import table as write_table
    from tertium.data.readers import iter_texts
    from tertium.models.tokens import chunks
    from tertium.progress import bar
    from tertium.records.decision import VERDICT

    total = 0
    further = opened.manifest.columns
    ours = ("query", "rank", "id", "text", "similarity")
    decision = opened.model.cosine_decision
    said = () if decision is None else VERDICT
    columns = (*ours, *(f"{n}_" if n in (*ours, *said) else n for n in further), *said)
    texts = asked if file is None else iter_texts(file, column=column)
    with (
        write_table(output, columns, spreadsheet_safe=spreadsheet_safe) as write,
        bar(total=None, label="searching", unit="query") as shown,
    ):
        for window in chunks(texts, 1024):
            found = opened.search_many(window, progress=False, **chosen)
            for query, hits in zip(window, found, strict=True):
                for rank, hit in enumerate(hits, 1):
                    values = (hit.columns.get(name) for name in further)
                    cells = verdict_cells(decision, hit.cosine)
                    write((query, rank, hit.id, hit.text, hit.score, *values, *cells))
            total += len(window)
            shown.update(len(window))
    show(
        {
            "index": str(index),
            "output": str(output),
            "queries": total,
            "decision": None if decision is None else decision.to_json("cosine"),
        },
        as_json=as_json,
        notes=f"{output}: hits for {'1 query' if total == 1 else f'{total:,} queries'}",
    )


@app.command(cls=Command)
def stats(
    index: Folder,
    check: Annotated[
        bool, typer.Option("--check", help="Read everything and compare checksums.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show what an index holds and what share of it is dead; with --check, whether it is intact.

    Example: tertium index stats my-index
    """
    opened = _open(index, None, "default")
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

    opened = Index.open(index, engine=engine)  # fails before a model is loaded in vain
    if model is None:
        return opened
    from tertium.engines.loading import load_embedder

    length = opened.manifest.model.truncate_dim
    return Index.open(index, load_embedder(model, engine=engine, truncate_dim=length))


def _settings(given: list[str]) -> dict[str, Any]:
    """``name=value``; numbers where they are written as such, nothing to empty a column."""
    from tertium.corpus.inputs import typed

    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name.strip():
            raise TertiumError(f"--set {each}: write name=value.")
        found[name] = typed(value)
    return found


def _summary(index: "Index") -> dict[str, Any]:
    manifest = index.manifest
    recall = manifest.recall
    return {
        "index": str(index.folder),
        "texts": len(index),
        "vectors": manifest.rows,
        "dead": manifest.dead,
        "dead_share": round(manifest.dead / manifest.rows, 4) if manifest.rows else 0.0,
        "columns": list(manifest.columns),
        "model": manifest.model.model_dump(),
        "dtype": manifest.dtype,
        "search": "exact" if manifest.graph is None else "hnsw",
        "recall": None if recall is None else recall.model_dump(),
        "segments": len(manifest.segments),
        "bytes": index.size,
    }


def _dead_note(index: "Index") -> list[str]:
    manifest = index.manifest
    if not manifest.rows or manifest.dead < _DEAD * manifest.rows:
        return []
    share = manifest.dead / manifest.rows
    share = min(share, 0.99) if share < 1 else share  # all only if it is all
    return [f"{share:.0%} of the vectors are dead. To be rid of them: tertium index compact"]


def _bytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"


def _show_added(index: "Index", added: int, *, as_json: bool) -> None:
    recall = index.manifest.recall
    quality = "exact search" if recall is None else f"recall@{recall.at} {recall.value:.3f}"
    new = f", {added:,} of them new" if added < len(index) else ""
    alive = index.manifest.rows - index.manifest.dead
    long = f" in {count(alive, 'passage')}" if index.manifest.passages else ""
    message = f"{index.folder}: {count(len(index), 'text')}{new}{long}, {quality}"
    show(_summary(index) | {"added": added}, as_json=as_json, notes=message)


def _show_hits(
    index: "Index", queries: list[str], chosen: dict[str, Any], *, as_json: bool
) -> None:
    found = index.search_many(queries, **chosen)
    decision = index.model.cosine_decision
    document = {
        "index": str(index.folder),
        "decision": None if decision is None else decision.to_json("cosine"),
        "queries": [
            {"query": query, "hits": [_document(hit, decision) for hit in hits]}
            for query, hits in zip(queries, found, strict=True)
        ],
    }
    heading = "cosine" if not chosen["hybrid"] and "rerank" not in chosen else "score"
    said = [] if decision is None else [decision.name]
    further = ["columns"] if index.manifest.columns else []
    lines: list[RenderableType] = []
    for query, hits in zip(queries, found, strict=True):
        rows = [
            (
                f"{hit.score:.3f}",
                *_verdict(decision, hit),
                hit.id,
                hit.text if hit.passage is None else f"… {hit.passage} …",
                *([", ".join(f"{k}={v}" for k, v in hit.columns.items())] if further else []),
            )
            for hit in hits
        ]
        headings = (heading, *said, "id", "text", *further)
        lines += [cell(query, style="bold"), table(headings, rows) if rows else "no text found"]
    notes = [] if decision is None else [f"{decision.name}: {decision.reason('cosine')}"]
    show(document, *lines, as_json=as_json, notes=notes)


def _verdict(decision: "Decision | None", hit: "Hit") -> tuple[str, ...]:
    if decision is None:
        return ()
    if hit.cosine is None:  # found by its words only
        return ("",)
    (found,) = decision.verdicts([hit.cosine], measure="cosine")
    return (str(found).removeprefix(f"{decision.name}: "),)


def _document(hit: "Hit", decision: "Decision | None") -> dict[str, Any]:
    found = {"id": hit.id, "text": hit.text, "score": hit.score, "cosine": hit.cosine}
    if decision is not None:
        from tertium.records.decision import VERDICT

        found |= dict(zip(VERDICT, verdict_cells(decision, hit.cosine), strict=True))
    found |= {"columns": dict(hit.columns)} if hit.columns else {}
    return found | ({} if hit.passage is None else {"passage": hit.passage})
