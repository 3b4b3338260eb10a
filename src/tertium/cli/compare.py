"""``tertium compare``: how similar are these texts, and in what way?"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import options
from tertium.cli.output import bar, cell, show, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tertium.models.base import Model

__all__ = ["compare"]


def compare(
    a: Annotated[str, typer.Argument(help="The first text.")],
    b: Annotated[list[str], typer.Argument(help="One or more texts to compare it with.")],
    on: Annotated[
        list[str], typer.Option(help="Compare with respect to this; may be repeated.")
    ] = [],
    model: options.Scorer = None,
    engine: options.Engine = "default",
    as_json: options.Json = False,
) -> None:
    """Say how similar two texts are.

    Example: tertium compare "A cat sleeps." "A kitten is napping." "Stocks fell."
    """
    import tertium

    scorer = tertium.load(model or ("conditional" if on else "sts"), engine=engine)
    pairs = _triples(scorer, a, b, on) if on or scorer.takes_conditions else _pairs(scorer, a, b)
    low, high = pairs[0]["scale"]
    graded = (low, high) != (-1.0, 1.0)
    with_cosine = graded and pairs[0]["cosine"] is not None
    named = not on or len(b) > 1  # one text under several conditions stands above the table
    headings = [f"of {high:g}" if graded else "cosine", ""]
    headings += ["cosine"] * with_cosine + ["with respect to"] * bool(on) + ["text"] * named

    def rows() -> "Iterator[list[str]]":
        for pair in pairs if on else sorted(pairs, key=lambda pair: -pair["score"]):
            drawn = bar(pair["score"], low=low if on else max(low, 0.0), high=high)
            row = [f"{pair['score']:.2f}" if graded else f"{pair['score']:.3f}", drawn]
            row += [f"{pair['cosine']:.3f}"] if with_cosine else []
            yield row + [pair["condition"]] * bool(on) + [pair["b"]] * named

    above = [cell(text, style="bold") for text in (a, *([] if named else b))]
    show({"pairs": pairs}, *above, table(headings, rows()), as_json=as_json)


def _pairs(model: "Model", a: str, b: list[str]) -> list[dict[str, Any]]:
    """Pairs without a condition, from one vector per text."""
    from tertium.models.base import cosine_rows
    from tertium.models.loading import as_embedder

    scorer = as_embedder(model)
    vectors = scorer.encode([a, *b])
    first, second = vectors[[0] * len(b)], vectors[1:]
    scores, cosines = scorer.score_vectors(first, second), cosine_rows(first, second)
    return [
        _pair(a, other, None, float(score), scorer.scale, float(cosine))
        for other, score, cosine in zip(b, scores, cosines, strict=True)
    ]


def _triples(model: "Model", a: str, b: list[str], on: list[str]) -> list[dict[str, Any]]:
    """Every text under every condition; without one, under none, of which the model warns."""
    from tertium.models.loading import as_conditional

    scorer = as_conditional(model)
    items = [(a, other, condition) for other in b for condition in on or [""]]
    return [
        _pair(a, other, condition if on else None, float(score), scorer.scale, None)
        for (_, other, condition), score in zip(items, scorer.score(items), strict=True)
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
