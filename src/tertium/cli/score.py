"""``tertium score``: a score for every pair of a file, in some respect if it names one."""

from collections.abc import Iterator
from pathlib import Path

import typer

from tertium.cli import bulk, checks
from tertium.cli.output import ENGINE, JSON, SCORER, emit, note

__all__ = ["score"]


def score(
    pairs: Path = typer.Argument(
        help="TSV, CSV, JSONL or Parquet with sentence1, sentence2 and perhaps condition.",
        callback=checks.file,
    ),
    output: str = typer.Option(
        *(..., "--output", "-o"),
        help="Where to write: .tsv, .csv, .jsonl, .parquet, or a folder of shards (DIR/).",
    ),
    model: str | None = SCORER,
    engine: str = ENGINE,
    workers: int | None = bulk.WORKERS,
    threads: int | None = bulk.THREADS,
    shard_rows: int | None = bulk.SHARD_ROWS,
    on_error: str | None = bulk.ON_ERROR,
    engine_cluster: str | None = bulk.CLUSTER,
    ray_address: str | None = bulk.RAY_ADDRESS,
    spreadsheet_safe: bool = typer.Option(
        False,
        "--spreadsheet-safe/--raw-cells",
        help="In .tsv and .csv, put ' before a text that a spreadsheet would run as a formula.",
    ),
    as_json: bool = JSON,
) -> None:
    """Score every pair of a file, in constant memory; the output has the input's order.

    A folder is filled by several processes, and by the same command again after an interruption.

    Example: tertium score my_pairs.tsv -o scored.tsv
    """
    shards = bulk.BulkOptions(
        workers, threads, shard_rows, on_error, None, engine_cluster, ray_address
    )
    if bulk.is_folder(output):
        bulk.score_folder(pairs, output, shards, model=model, as_json=as_json, engine=engine)
        return
    shards.refuse()
    from tertium.data.formats import SCORES, check_format
    from tertium.data.readers import detect_kind
    from tertium.files import check_outputs

    check_format(Path(output), SCORES, what="scores")
    check_outputs(pairs, Path(output))
    asks = detect_kind(pairs) == "conditional"
    import tertium
    from tertium.jobs.writers import write_scores
    from tertium.models.grading import TripleGrader

    scorer = tertium.load(model or ("conditional" if asks else "sts"), engine=engine)
    conditional = isinstance(scorer, TripleGrader)
    if asks and not conditional:
        note(f"note: {scorer.name} does not take conditions; the column is left out.")
    texts = _triples(pairs) if conditional else _pairs(pairs)
    rows = write_scores(scorer, texts, Path(output), spreadsheet_safe=spreadsheet_safe)
    if as_json:
        emit({"output": output, "rows": rows, "scale": list(scorer.scale)})
    else:
        note(f"{output}: {rows:,} scores on {scorer.scale[0]:g}..{scorer.scale[1]:g}")


def _pairs(file: Path) -> Iterator[tuple[str, ...]]:
    from tertium.data.readers import iter_rows
    from tertium.data.rows import Pair

    return ((row.sentence1, row.sentence2) for row in iter_rows(file, Pair))


def _triples(file: Path) -> Iterator[tuple[str, ...]]:
    from tertium.data.readers import iter_rows
    from tertium.data.rows import Question

    return ((row.sentence1, row.sentence2, row.condition) for row in iter_rows(file, Question))
