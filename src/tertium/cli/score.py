"""``tertium score``: a score for every pair of a file."""

from pathlib import Path

import typer

from tertium.cli.output import JSON, SCORER, emit, note

__all__ = ["score"]


def score(
    pairs: Path = typer.Argument(help="TSV, CSV, JSONL or Parquet with sentence1 and sentence2."),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Where to write: .tsv, .csv, .jsonl or .parquet."
    ),
    model: str = SCORER,
    as_json: bool = JSON,
) -> None:
    """Score every pair of a file, in constant memory; the output has the input's order.

    Example: tertium score my_pairs.tsv -o scored.tsv
    """
    import tertium
    from tertium.data.readers import iter_rows
    from tertium.data.rows import Pair
    from tertium.inference.writers import write_scores

    scorer = tertium.load(model)
    texts = ((row.sentence1, row.sentence2) for row in iter_rows(pairs, Pair))
    rows = write_scores(scorer, texts, output)
    if as_json:
        emit({"output": str(output), "rows": rows, "scale": list(scorer.scale)})
    else:
        note(f"{output}: {rows:,} scores on {scorer.scale[0]:g}..{scorer.scale[1]:g}")
