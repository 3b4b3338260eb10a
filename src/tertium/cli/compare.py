"""``tertium compare``: how alike are these texts, and in which respect?"""

from typing import Any

import typer

from tertium.cli.output import ENGINE, JSON, SCORER, cell, emit

__all__ = ["compare"]


def compare(
    a: str = typer.Argument(help="The first text."),
    b: list[str] = typer.Argument(help="One or more texts to compare it with."),
    on: list[str] = typer.Option([], help="Compare in this respect; may be repeated."),
    model: str | None = SCORER,
    engine: str = ENGINE,
    as_json: bool = JSON,
) -> None:
    """Say how alike two texts are.

    Example: tertium compare "A cat sleeps." "A kitten is napping." "Stocks fell."
    """
    pairs = _conditional(a, b, on, model, engine) if on else _plain(a, b, model, engine)
    if as_json:
        emit({"pairs": pairs})
        return
    from rich.console import Console
    from rich.table import Table

    low, high = pairs[0]["scale"]
    graded = (low, high) != (-1.0, 1.0)
    with_cosine = pairs[0]["cosine"] is not None
    headings = [f"of {high:g}", ""] if graded else ["cosine", ""]
    headings += ["cosine"] if graded and with_cosine else []
    named = not on or len(b) > 1  # one text in several respects stands above the table
    headings += [*(["as to"] if on else []), *(["text"] if named else [])]
    table = Table(*headings, box=None, pad_edge=False)
    for pair in pairs if on else sorted(pairs, key=lambda pair: -pair["score"]):
        drawn = bar(pair["score"], low=low if on else max(low, 0.0), high=high)
        figures = [f"{pair['score']:.2f}" if graded else f"{pair['score']:.3f}", drawn]
        figures += [f"{pair['cosine']:.3f}"] if graded and with_cosine else []
        respect = [cell(pair["condition"])] if on else []
        table.add_row(*figures, *respect, *([cell(pair["b"])] if named else []))
    console = Console()
    for text in (a, *([] if named else b)):
        console.print(cell(text, style="bold"))
    console.print(table)


def _plain(a: str, b: list[str], model: str | None, engine: str) -> list[dict[str, Any]]:
    """Pairs without a condition; a model that needs one says that it does without."""
    import tertium
    from tertium.models.grading import TripleGrader

    scorer = tertium.load(model or "sts", engine=engine)
    if isinstance(scorer, TripleGrader):
        return [{**pair, "condition": None} for pair in _conditional(a, b, [""], model, engine)]
    questions = [(a, other) for other in b]
    scores, cosines = scorer.score(questions), scorer.cosine(questions)
    return [
        _pair(a, other, None, float(score), scorer.scale, float(cosine))
        for other, score, cosine in zip(b, scores, cosines, strict=True)
    ]


def _conditional(
    a: str, b: list[str], on: list[str], model: str | None, engine: str
) -> list[dict[str, Any]]:
    """Every text in every respect."""
    from tertium.models.loading import load_conditional

    scorer = load_conditional(model or "conditional", engine=engine)
    questions = [(a, other, condition) for other in b for condition in on]
    return [
        _pair(a, other, condition, float(score), scorer.scale, None)
        for (_, other, condition), score in zip(questions, scorer.score(questions), strict=True)
    ]


def _pair(
    a: str,
    b: str,
    condition: str | None,
    score: float,
    scale: tuple[float, float],
    cosine: float | None,
) -> dict[str, Any]:
    return {
        "a": a,
        "b": b,
        "condition": condition,
        "score": score,
        "scale": list(scale),
        "cosine": cosine,
    }


def bar(value: float, *, low: float, high: float, width: int = 20) -> str:
    """A bar of eighths of blocks, as long as ``value`` is high.

    >>> bar(0.5, low=0, high=1, width=4)
    '██  '
    """
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)
