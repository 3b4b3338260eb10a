"""``tertium cluster``: texts in groups."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tertium.cli import checks, corpus
from tertium.cli.output import ENGINE, JSON, MODEL, SAFE_CELLS, cell, emit, note

if TYPE_CHECKING:
    from tertium.corpus import Clustering

__all__ = ["cluster"]

_SHOWN = 10


def cluster(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(
        ..., "--output", "-o", help="All texts by cluster: .tsv, .csv or .jsonl."
    ),
    threshold: float = typer.Option(
        0.75, help="Least cosine with the text in the middle.", callback=checks.threshold
    ),
    min_size: int = typer.Option(3, min=1, help="Texts that make a community."),
    k: int | None = typer.Option(
        None,
        min=1,
        help="That many groups by k-means instead (fewer if texts repeat), every text in one.",
    ),
    seed: int = typer.Option(0, help="Of k-means."),
    model: str = MODEL,
    engine: str = ENGINE,
    vectors: Path | None = corpus.VECTORS,
    column: str | None = corpus.COLUMN,
    id_column: str | None = corpus.ID_COLUMN,
    spreadsheet_safe: bool = SAFE_CELLS,
    as_json: bool = JSON,
) -> None:
    """Group texts: communities around a text, or as many groups as you ask for.

    Example: tertium cluster sentences.txt -o clusters.tsv --threshold 0.7
    """
    from tertium.corpus.inputs import TABLES, table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(texts, output)
    read = corpus.read(texts, column, id_column)
    source = corpus.source(model, engine, vectors, read.texts)
    from tertium.corpus import cluster as find

    found = find(read.texts, source, threshold=threshold, min_size=min_size, k=k, seed=seed)
    columns = ("cluster", "id", "text", "similarity")
    with table(output, columns, spreadsheet_safe=spreadsheet_safe) as write:
        for number, group in enumerate(found.clusters, 1):
            for row, score in zip(group.rows, group.scores, strict=True):
                write((number, read.ids[row], read.texts[row], score))
        for row in found.alone:
            write((0, read.ids[row], read.texts[row], None))
    if as_json:
        emit(
            {
                "output": str(output),
                "texts": len(read.texts),
                "alone": len(found.alone),
                "clusters": [
                    {
                        "cluster": number,
                        "size": len(group.rows),
                        "centre": {
                            "id": read.ids[group.centre],
                            "text": read.texts[group.centre],
                        },
                    }
                    for number, group in enumerate(found.clusters, 1)
                ],
            }
        )
    else:
        _show(found, read)
        inside = len(read.texts) - len(found.alone)
        note(f"{output}: {inside:,} of {len(read.texts):,} texts in {len(found.clusters):,} groups")


def _show(found: "Clustering", read: corpus.Corpus) -> None:
    """The largest groups, each by its middle."""
    from rich.console import Console
    from rich.table import Table

    if not found.clusters:
        return
    table = Table("", "texts", "in the middle", box=None, pad_edge=False)
    for number, group in enumerate(found.clusters[:_SHOWN], 1):
        table.add_row(str(number), f"{len(group.rows):,}", cell(read.texts[group.centre]))
    Console().print(table)
    if len(found.clusters) > _SHOWN:
        Console().print(f"and {len(found.clusters) - _SHOWN:,} more")
