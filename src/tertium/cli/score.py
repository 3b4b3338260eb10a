"""``tertium score``: a score for every pair of a file, in some respect if it names one."""

from collections.abc import Iterator
from pathlib import Path

import typer

from tertium.cli.output import JSON, SCORER, emit, note

__all__ = ["score"]


def score(
    pairs: Path = typer.Argument(
        help="TSV, CSV, JSONL or Parquet with sentence1, sentence2 and perhaps condition."
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Where to write: .tsv, .csv, .jsonl or .parquet."
    ),
    model: str | None = SCORER,
    as_json: bool = JSON,
) -> None:
    """Score every pair of a file, in constant memory; the output has the input's order.

    Example: tertium score my_pairs.tsv -o scored.tsv
    """
    import tertium
    from tertium.data.readers import detect_kind
    from tertium.inference.grading import TripleGrader
    from tertium.inference.loading import load_conditional
    from tertium.inference.writers import write_scores

    asks = detect_kind(pairs) == "conditional"
    if model is None:
        scorer = load_conditional() if asks else tertium.load("sts")
    else:
        scorer = tertium.load(model)
    conditional = isinstance(scorer, TripleGrader)
    if asks and not conditional:
        note(f"note: {scorer.name} does not take conditions; the column is left out.")
    texts = _triples(pairs) if conditional else _pairs(pairs)
    rows = write_scores(scorer, texts, output)
    if as_json:
        emit({"output": str(output), "rows": rows, "scale": list(scorer.scale)})
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
