"""``tertium augment``: what a view makes of a sentence."""

from typing import TYPE_CHECKING

import typer

from tertium.cli.output import JSON, MODEL, cell, emit, say

if TYPE_CHECKING:
    from tertium.analysis import Augmented

__all__ = ["augment"]


def augment(
    text: str = typer.Argument(help="The sentence."),
    view: str = typer.Option("add", help="add, delete, repeat or span_mask."),
    k: int = typer.Option(1, min=1, help="Tokens to drop, for add."),
    aggregation: str = typer.Option("naive", help="naive or rollout, for add."),
    protect: bool = typer.Option(True, help="Keep special tokens, for add."),
    seed: int = typer.Option(0, help="Of views made by chance."),
    model: str = MODEL,
    as_json: bool = JSON,
) -> None:
    """Show how a sentence becomes a view: with add, which tokens go and why.

    Example: tertium augment "A brown bear is eating a small fish." --view add --k 4
    """
    from tertium.errors import unknown_name
    from tertium.types import Aggregation, ViewName

    known = [name for name in ViewName if name is not ViewName.DROPOUT]
    if view not in known:
        raise unknown_name("view", view, known)
    if aggregation not in list(Aggregation):
        raise unknown_name("aggregation", aggregation, list(Aggregation))
    import tertium
    from tertium.analysis import augment as changed
    from tertium.analysis import drop_by_attention
    from tertium.models import Encoder
    from tertium.training.vocabulary import read_vocabulary
    from tertium.views import VIEWS, AttentionDropout

    loaded = tertium.load(model)
    encoder = loaded if isinstance(loaded, Encoder) else loaded.encoder
    vocabulary = read_vocabulary(encoder.tokenizer)
    if view != "add":
        result = changed(encoder, [VIEWS[view](vocabulary)], text, seed=seed)
        if as_json:
            emit({"model": model, "view": view, "text": text, "changed": result, "seed": seed})
        else:
            say(result)
        return
    dropout = AttentionDropout(
        vocabulary,
        aggregation=Aggregation(aggregation),
        k=k,
        t=0,
        protect_special_tokens=protect,
    )
    found = drop_by_attention(encoder, dropout, text)
    if as_json:
        emit({"model": model, "view": view, "text": text, **_plain(found)})
    else:
        _show(text, found)


def _plain(found: "Augmented") -> dict[str, object]:
    order = {step.position: number for number, step in enumerate(found.steps, 1)}
    return {
        "tokens": [
            {"token": token, "score": score, "dropped": order.get(at)}
            for at, (token, score) in enumerate(zip(found.tokens, found.scores, strict=True))
        ],
        "steps": [{"dropped": step.token, "text": step.text} for step in found.steps],
    }


def _show(text: str, found: "Augmented") -> None:
    from rich.console import Console
    from rich.table import Table

    from tertium.cli.compare import bar

    order = {step.position: number for number, step in enumerate(found.steps, 1)}
    table = Table("token", "attention", "", "goes", box=None, pad_edge=False)
    # A bar is full at the most attended token that may go: CLS would dwarf them all.
    candidates = [s for s, may in zip(found.scores, found.droppable, strict=True) if may]
    most = max(candidates or found.scores)
    for at, (token, score) in enumerate(zip(found.tokens, found.scores, strict=True)):
        style = "dim" if at in order else ""
        drawn = bar(score, low=0.0, high=most)
        table.add_row(cell(token, style), f"{score:.2f}", drawn, str(order.get(at, "")))
    console = Console()
    console.print(table)
    console.print()
    steps = Table("", "gone", "left", box=None, pad_edge=False)
    steps.add_row("0", "", cell(text))
    for number, step in enumerate(found.steps, 1):
        steps.add_row(str(number), cell(step.token), cell(step.text))
    console.print(steps)
