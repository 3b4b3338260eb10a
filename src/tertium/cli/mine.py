"""``tertium mine``: pairs of texts that mean about the same."""

from pathlib import Path

import typer

from tertium.cli import checks, corpus
from tertium.cli.output import ENGINE, JSON, MODEL, SAFE_CELLS, emit, note

__all__ = ["mine"]


def mine(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(..., "--output", "-o", help="Pairs: .tsv, .csv or .jsonl."),
    threshold: float = typer.Option(0.8, help="Least cosine of a pair.", callback=checks.threshold),
    top_k: int = typer.Option(
        10, min=1, help="A pair is among so many nearest of either of its texts."
    ),
    limit: int | None = typer.Option(None, min=1, help="At most so many pairs, the best."),
    model: str = MODEL,
    engine: str = ENGINE,
    vectors: Path | None = corpus.VECTORS,
    column: str | None = corpus.COLUMN,
    id_column: str | None = corpus.ID_COLUMN,
    method: str = corpus.METHOD,
    spreadsheet_safe: bool = SAFE_CELLS,
    as_json: bool = JSON,
) -> None:
    """Find the pairs of texts that are most alike, and write them, the best first.

    Example: tertium mine sentences.txt -o pairs.tsv --threshold 0.85
    """
    from tertium.corpus.inputs import TABLES, table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(texts, output)
    read = corpus.read(texts, column, id_column)
    source = corpus.source(model, engine, vectors, read.texts)
    from tertium.corpus import mine as find

    found = find(read.texts, source, threshold=threshold, top_k=top_k, limit=limit, method=method)
    columns = ("sentence1", "sentence2", "similarity", "id1", "id2")
    with table(output, columns, spreadsheet_safe=spreadsheet_safe) as write:
        for first, second, score in found:
            write((read.texts[first], read.texts[second], score, read.ids[first], read.ids[second]))
    if as_json:
        emit(
            {
                "output": str(output),
                "texts": len(read.texts),
                "repeats": found.repeats,
                "pairs": len(found),
                "threshold": threshold,
                "top_k": top_k,
                "method": found.method,
            }
        )
    else:
        repeats = f", {found.repeats:,} of them repeated" if found.repeats else ""
        note(f"{output}: {len(found):,} pairs of {len(read.texts):,} texts{repeats}")
