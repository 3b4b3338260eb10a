"""``tertium compare``: how alike are these texts?"""

import typer

from tertium.cli.output import JSON, SCORER, emit

__all__ = ["compare"]


def compare(
    a: str = typer.Argument(help="The first text."),
    b: list[str] = typer.Argument(help="One or more texts to compare it with."),
    model: str = SCORER,
    as_json: bool = JSON,
) -> None:
    """Say how alike two texts are.

    Example: tertium compare "A cat sleeps." "A kitten is napping." "Stocks fell."
    """
    import tertium

    scorer = tertium.load(model)
    questions = [(a, other) for other in b]
    scores = [float(score) for score in scorer.score(questions)]
    cosines = [float(c) for c in scorer.cosine(questions)]
    low, high = scorer.scale
    if as_json:
        pairs = [
            {
                "a": a,
                "b": other,
                "condition": None,
                "score": score,
                "scale": [low, high],
                "cosine": cosine,
            }
            for other, score, cosine in zip(b, scores, cosines, strict=True)
        ]
        emit({"pairs": pairs})
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    graded = (low, high) != (-1.0, 1.0)
    headings = [f"of {high:g}", "", "cosine"] if graded else ["cosine", ""]
    table = Table(*headings, "text", box=None, pad_edge=False)
    for at in sorted(range(len(b)), key=lambda at: -scores[at]):
        drawn = bar(scores[at], low=max(low, 0.0), high=high)
        figures = [f"{scores[at]:.2f}", drawn, f"{cosines[at]:.3f}"]
        table.add_row(*(figures if graded else [figures[2], drawn]), Text(b[at]))
    console = Console()
    console.print(Text(a, style="bold"))
    console.print(table)


def bar(value: float, *, low: float, high: float, width: int = 20) -> str:
    """A bar of eighths of blocks, as long as ``value`` is high.

    >>> bar(0.5, low=0, high=1, width=4)
    '██  '
    """
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)
