"""``tertium dedupe``: drop what an earlier text says already."""

from collections import Counter
from pathlib import Path

import typer

from tertium.cli import checks, corpus
from tertium.cli.output import ENGINE, JSON, MODEL, emit, note

__all__ = ["dedupe"]


def dedupe(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(
        ..., "--output", "-o", help="What stays: .txt, or .tsv, .csv, .jsonl with all columns."
    ),
    report: Path | None = typer.Option(
        None, help="What went, with the kept text and the cosine: .tsv, .csv or .jsonl."
    ),
    threshold: float = typer.Option(
        0.9, help="Least cosine of near-duplicates.", callback=checks.threshold
    ),
    exact_only: bool = typer.Option(
        False, "--exact-only", help="Drop only texts that are the same, white space aside."
    ),
    model: str = MODEL,
    engine: str = ENGINE,
    vectors: Path | None = corpus.VECTORS,
    column: str | None = corpus.COLUMN,
    id_column: str | None = corpus.ID_COLUMN,
    method: str = corpus.METHOD,
    spreadsheet_safe: bool = typer.Option(
        True,
        "--spreadsheet-safe/--raw-cells",
        help="In the report, put ' before a text that a spreadsheet would run as a formula.",
    ),
    as_json: bool = JSON,
) -> None:
    """Drop every text that is near an earlier one that stays; the order is kept.

    Example: tertium dedupe sentences.txt -o clean.txt --report dropped.tsv
    """
    from tertium.corpus.inputs import TABLES, table, write_kept
    from tertium.files import check_ending, check_outputs

    check_ending(output, (".txt", *TABLES))
    if report is not None:
        check_ending(report, TABLES)
    check_outputs(texts, output, report)
    read = corpus.read(texts, column, id_column)
    source = None if exact_only else corpus.source(model, engine, vectors, read.texts)
    from tertium.corpus import dedupe as find

    found = find(read.texts, source, threshold=threshold, method=method)
    if report is not None:
        columns = ("id", "text", "reason", "kept_id", "kept_text", "similarity")
        with table(report, columns, spreadsheet_safe=spreadsheet_safe) as write:
            for gone in found.dropped:
                kept = (read.ids[gone.kept], read.texts[gone.kept])
                write(
                    (read.ids[gone.row], read.texts[gone.row], str(gone.reason), *kept, gone.score)
                )
    write_kept(texts, output, found.kept, column=column)
    reasons = Counter(str(gone.reason) for gone in found.dropped)
    if as_json:
        emit(
            {
                "output": str(output),
                "report": None if report is None else str(report),
                "texts": len(read.texts),
                "kept": len(found.kept),
                "dropped": {"same": reasons["same"], "near": reasons["near"]},
                "threshold": None if exact_only else threshold,
                "method": found.method,
            }
        )
    else:
        went = f"{reasons['same']:,} the same and {reasons['near']:,} near ones went"
        note(f"{output}: {len(found.kept):,} of {len(read.texts):,} texts; {went}")
