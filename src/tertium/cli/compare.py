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
        list[str],
        typer.Option(
            metavar="CONDITION", help="Compare with respect to this condition; may be repeated."
        ),
    ] = [],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also say how often the model is right about such differences between texts.",
        ),
    ] = False,
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
    decision = scorer.decision
    if decision is not None:
        for pair, found in zip(
            pairs, decision.verdicts([pair["score"] for pair in pairs]), strict=True
        ):
            pair |= {**found.to_json(), "said": str(found).removeprefix(f"{decision.name}: ")}
    checked = _check(scorer, pairs) if check else []
    low, high = pairs[0]["scale"]
    graded = (low, high) != (-1.0, 1.0)
    with_cosine = graded and pairs[0]["cosine"] is not None
    named = not on or len(b) > 1  # one text under several conditions stands above the table
    headings = [f"of {high:g}" if graded else "cosine", ""]
    headings += ["cosine"] * with_cosine + [decision.name if decision else ""] * bool(decision)
    headings += ["with respect to"] * bool(on) + ["text"] * named

    def rows() -> "Iterator[list[str]]":
        for pair in pairs if on else sorted(pairs, key=lambda pair: -pair["score"]):
            drawn = bar(pair["score"], low=low if on else max(low, 0.0), high=high)
            row = [f"{pair['score']:.2f}" if graded else f"{pair['score']:.3f}", drawn]
            row += [f"{pair['cosine']:.3f}"] if with_cosine else []
            row += [pair["said"]] if decision else []
            yield row + [pair["condition"]] * bool(on) + [pair["b"]] * named

    above = [cell(text, style="bold") for text in (a, *([] if named else b))]
    document: dict[str, Any] = {"pairs": pairs}
    notes = []
    if not all(text.strip() for text in (a, *(pair["b"] for pair in pairs))):
        notes.append("one of the texts is empty: its score means nothing.")
    if decision is not None:
        document["decision"] = decision.to_json()
        notes.append(f"{decision.name}: {decision.reason()}")
    show(document, *above, table(headings, rows()), *checked, as_json=as_json, notes=notes)


def _pairs(model: "Model", a: str, b: list[str]) -> list[dict[str, Any]]:
    """Pairs without a condition; the cosine is None for a model without embeddings."""
    from tertium.models.base import Embedder

    items = [(a, other) for other in b]
    cosines: list[float | None] = [None] * len(b)
    if isinstance(model, Embedder):
        scores, found = model.score_and_cosine(items)
        cosines = found.tolist()
    else:
        scores = model.score(items)
    return [
        _pair(a, other, None, float(score), model.scale, cosine)
        for other, score, cosine in zip(b, scores, cosines, strict=True)
    ]


def _check(model: "Model", pairs: list[dict[str, Any]]) -> list[str]:
    """What each pair differs by, how often the model is right there, and the same in words."""
    from tertium.data.differences import differences
    from tertium.errors import TertiumError
    from tertium.evaluation.tasks.base import EmbeddingCache
    from tertium.evaluation.tasks.contrast import contrast_values

    if model.takes_conditions:
        raise TertiumError(f"{model.name} takes conditions: --check is for texts without them.")
    found = {pair["b"]: differences(pair["a"], pair["b"]) for pair in pairs}
    kinds = [kind for each in found.values() for kind in each]
    known = contrast_values(EmbeddingCache(model), resamples=1000, seed=0)["kinds"] if kinds else {}
    notes = []
    for pair in pairs:
        pair["check"] = [{"kind": kind, **known[kind]} for kind in found[pair["b"]]]
        for entry in pair["check"]:
            low, high = entry["interval"]
            notes.append(
                f"{pair['b']}: differs by {entry['kind']}. Of {entry['items']} such contrasts "
                f"{model.name} has {entry['accuracy']:.0f} % right ({low:.0f} to {high:.0f})."
            )
        if not pair["check"]:
            notes.append(f"{pair['b']}: no known kind of difference was found.")
    return notes


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
