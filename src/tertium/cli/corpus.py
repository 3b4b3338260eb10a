"""``tertium mine``, ``dedupe`` and ``cluster``: similar texts in a large file."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from tertium.cli import checks, options
from tertium.cli.output import count, show, table

__all__ = ["cluster", "dedupe", "mine"]

_SHOWN = 10  # clusters


@options.grouped
def mine(
    output: options.TableFile,
    threshold: Annotated[
        float, typer.Option(help="Minimum cosine of a pair.", callback=checks.threshold)
    ] = 0.8,
    top_k: Annotated[
        int,
        typer.Option(min=1, help="Consider only the N nearest neighbours of each text."),
    ] = 10,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Keep only the best N pairs (default: all).")
    ] = None,
    model: options.Model = "default",
    engine: options.Engine = "default",
    method: options.Method = "auto",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Find the most similar pairs of texts, and write them, best first.

    Example: tertium mine sentences.txt -o pairs.tsv --threshold 0.85
    """
    from tertium.corpus.inputs import TABLES
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(corpus.texts, output)
    texts, ids = corpus.read()
    source = corpus.source(texts, model=model, engine=engine)
    from tertium.corpus import mine as find

    found = find(texts, source, threshold=threshold, top_k=top_k, limit=limit, method=method)
    columns = ("sentence1", "sentence2", "similarity", "id1", "id2")
    with write_table(output, columns, spreadsheet_safe=spreadsheet_safe) as write:
        for first, second, score in found:
            write((texts[first], texts[second], score, ids[first], ids[second]))
    document = {
        "output": str(output),
        "texts": len(texts),
        "repeats": found.repeats,
        "pairs": len(found),
        "threshold": threshold,
        "top_k": top_k,
        "method": found.method,
    }
    repeats = f", {found.repeats:,} of them repeated" if found.repeats else ""
    message = f"{output}: {count(len(found), 'pair')} from {count(len(texts), 'text')}{repeats}"
    show(document, as_json=as_json, notes=message)


@options.grouped
def dedupe(
    output: Annotated[
        Path,
        typer.Option(
            *("--output", "-o"),
            help="File for the texts that are kept: .txt, or .tsv, .csv, .jsonl with all columns.",
        ),
    ],
    report: Annotated[
        Path | None,
        typer.Option(
            help="File for the texts that are removed, with the kept text and the cosine: "
            ".tsv, .csv or .jsonl."
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Minimum cosine for near-duplicates.", callback=checks.threshold)
    ] = 0.9,
    exact_only: Annotated[
        bool,
        typer.Option(
            "--exact-only", help="Remove only texts that are identical except for white space."
        ),
    ] = False,
    model: options.Model = "default",
    engine: options.Engine = "default",
    method: options.Method = "auto",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Remove every text that is a near-duplicate of an earlier one; the order is kept.

    Example: tertium dedupe sentences.txt -o clean.txt --report dropped.tsv
    """
    from tertium.corpus.inputs import TABLES, write_kept
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    check_ending(output, (".txt", *TABLES))
    if report is not None:
        check_ending(report, TABLES)
    check_outputs(corpus.texts, output, report)
    texts, ids = corpus.read()
    source = None if exact_only else corpus.source(texts, model=model, engine=engine)
    from tertium.corpus import dedupe as find

    found = find(texts, source, threshold=threshold, method=method)
    if report is not None:
        columns = ("id", "text", "reason", "kept_id", "kept_text", "similarity")
        with write_table(report, columns, spreadsheet_safe=spreadsheet_safe) as write:
            for gone in found.dropped:
                kept = (ids[gone.kept], texts[gone.kept])
                write((ids[gone.row], texts[gone.row], str(gone.reason), *kept, gone.score))
    write_kept(corpus.texts, output, found.kept, column=corpus.column)
    reasons = Counter(str(gone.reason) for gone in found.dropped)
    document = {
        "output": str(output),
        "report": None if report is None else str(report),
        "texts": len(texts),
        "kept": len(found.kept),
        "dropped": {"same": reasons["same"], "near": reasons["near"]},
        "threshold": None if exact_only else threshold,
        "method": found.method,
    }
    removed = f"removed {reasons['same']:,} exact and {reasons['near']:,} near duplicates"
    message = f"{output}: kept {len(found.kept):,} of {count(len(texts), 'text')}; {removed}"
    show(document, as_json=as_json, notes=message)


@options.grouped
def cluster(
    output: options.TableFile,
    threshold: Annotated[
        float,
        typer.Option(
            help="Minimum cosine with the most typical text of a cluster.",
            callback=checks.threshold,
        ),
    ] = 0.75,
    min_size: Annotated[int, typer.Option(min=1, help="Minimum number of texts in a cluster.")] = 3,
    k: Annotated[
        int | None,
        typer.Option(
            min=1, help="Make N clusters by k-means instead, with every text in one of them."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for k-means.")] = 0,
    model: options.Model = "default",
    engine: options.Engine = "default",
    spreadsheet_safe: options.SafeCells = True,
    *,
    corpus: options.Corpus,
    as_json: options.Json = False,
) -> None:
    """Group texts: clusters around a typical text, or as many clusters as you ask for.

    Example: tertium cluster sentences.txt -o clusters.tsv --threshold 0.7
    """
    from tertium.corpus.inputs import TABLES
    from tertium.corpus.inputs import table as write_table
    from tertium.files import check_ending, check_outputs

    check_ending(output, TABLES)
    check_outputs(corpus.texts, output)
    texts, ids = corpus.read()
    source = corpus.source(texts, model=model, engine=engine)
    from tertium.corpus import cluster as find

    found = find(texts, source, threshold=threshold, min_size=min_size, k=k, seed=seed)
    with write_table(
        output, ("cluster", "id", "text", "similarity"), spreadsheet_safe=spreadsheet_safe
    ) as write:
        for number, group in enumerate(found.clusters, 1):
            for row, score in zip(group.rows, group.scores, strict=True):
                write((number, ids[row], texts[row], score))
        for row in found.alone:
            write((0, ids[row], texts[row], None))
    clusters = [
        {
            "cluster": number,
            "size": len(group.rows),
            "centre": {"id": ids[group.centre], "text": texts[group.centre]},
        }
        for number, group in enumerate(found.clusters, 1)
    ]
    document = {
        "output": str(output),
        "texts": len(texts),
        "alone": len(found.alone),
        "clusters": clusters,
    }
    largest = enumerate(found.clusters[:_SHOWN], 1)
    rows = [(str(n), f"{len(group.rows):,}", texts[group.centre]) for n, group in largest]
    lines = [table(("", "texts", "most typical text"), rows)] if rows else []
    more = len(found.clusters) - _SHOWN
    inside = f"{len(texts) - len(found.alone):,} of {count(len(texts), 'text')}"
    show(
        document,
        *lines,
        *([f"and {more:,} more"] if more > 0 else []),
        as_json=as_json,
        notes=f"{output}: {inside} in {count(len(found.clusters), 'cluster')}",
    )
