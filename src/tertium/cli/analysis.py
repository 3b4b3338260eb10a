"""``tertium augment``, ``attention`` and ``inspect``: look inside models and views."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import bar, cell, save_figures, show, table
from tertium.errors import require, unknown_name

if TYPE_CHECKING:
    from rich.table import Table

    from tertium.analysis import Augmented

__all__ = ["attention", "augment", "inspect"]


def augment(
    text: Annotated[str, typer.Argument(help="The sentence.")],
    view: Annotated[str, typer.Option(help="add, delete, repeat or span_mask.")] = "add",
    k: Annotated[int, typer.Option(min=1, help="For add: number of tokens to drop.")] = 1,
    aggregation: Annotated[str, typer.Option(help="For add: naive or rollout.")] = "naive",
    protect: Annotated[
        bool, typer.Option(help="For add: keep special tokens and the last token.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Random seed for the other views.")] = 0,
    model: options.Model = "default",
    as_json: options.Json = False,
) -> None:
    """Show how a view changes a sentence: for add, which tokens are dropped and why.

    Example: tertium augment "A brown bear is eating a small fish." --view add --k 4
    """
    from tertium.types import Aggregation, ViewName

    known = [name for name in ViewName if name is not ViewName.DROPOUT]
    if view not in known:
        raise unknown_name("view", view, known)
    if aggregation not in list(Aggregation):
        raise unknown_name("aggregation", aggregation, list(Aggregation))
    import tertium
    from tertium.analysis import augment as changed
    from tertium.analysis import drop_by_attention
    from tertium.training.vocabulary import read_vocabulary
    from tertium.views import VIEWS, AttentionDropout

    encoder = tertium.load(model).encoder
    vocabulary = read_vocabulary(encoder.tokenizer)
    document: dict[str, object] = {"model": model, "view": view, "text": text}
    if view != "add":
        result = changed(encoder, [VIEWS[view](vocabulary)], text, seed=seed)
        show(document | {"changed": result, "seed": seed}, result, as_json=as_json)
        return
    dropout = AttentionDropout(
        vocabulary,
        aggregation=Aggregation(aggregation),
        k=k,
        t=0,
        protect_special_tokens=protect,
    )
    found = drop_by_attention(encoder, dropout, text)
    order = {step.position: number for number, step in enumerate(found.steps, 1)}
    document["tokens"] = [
        {"token": token, "score": score, "dropped": order.get(at)}
        for at, (token, score) in enumerate(zip(found.tokens, found.scores, strict=True))
    ]
    document["steps"] = [{"dropped": step.token, "text": step.text} for step in found.steps]
    steps = [(str(n), step.token, step.text) for n, step in enumerate(found.steps, 1)]
    show(
        document,
        _tokens(found, order),
        "",
        table(("", "dropped", "remaining"), [("0", "", text), *steps]),
        as_json=as_json,
    )


def attention(
    texts: options.Texts,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures.")],
    model: options.Model = "default",
    limit: Annotated[int, typer.Option(min=2, help="Use only the first N texts.")] = 200,
    seed: Annotated[int, typer.Option(help="Random seed for dropout and sampling.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Draw joint attention histograms, and similarity against attention mutual information.

    Example: tertium attention sentences.txt -o pictures
    """
    require("report", purpose="Drawing attention", packages=("matplotlib",))
    import tertium
    from tertium.analysis import attention_histograms, information_scatter, pair_information
    from tertium.data.readers import first_texts

    encoder = tertium.load(model).encoder
    chosen = first_texts(texts, limit)
    found = pair_information(encoder, chosen, seed=seed)
    figures = {
        "attention-information": information_scatter(found),
        "attention-histograms": attention_histograms(encoder, chosen, seed=seed),
    }
    files = save_figures(figures, output)
    same = float(found.positive_information.mean())
    different = float(found.negative_information.mean())
    show(
        {
            "files": [str(file) for file in files],
            "texts": len(chosen),
            "information": {"same": same, "different": different},
        },
        f"mean attention information: {same:.3f} same text, {different:.3f} different texts",
        as_json=as_json,
        notes=f"{output}: {', '.join(file.name for file in files)}",
    )


def inspect(
    models: Annotated[
        list[str],
        typer.Argument(help="Reserved names, folders or hub ids.", callback=checks.model),
    ] = ["default"],
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Text file or table on which to measure the CLS energy of each layer.",
            callback=checks.file,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Use only the first N texts.")] = 1000,
    tokens: Annotated[
        int, typer.Option(min=1, help="Length of the text whose cost is counted.")
    ] = 32,
    score: Annotated[
        list[float],
        typer.Option(
            help="A benchmark score of the model, to relate it to the cost; once for each model."
        ),
    ] = [],
    as_json: options.Json = False,
) -> None:
    """Show a model's size, its cost per text, and how much of its energy is in CLS.

    Several models are compared in a table.

    Example: tertium inspect default --score 78.87
    """
    if score and len(score) != len(models):
        raise typer.BadParameter(f"give --score once for each of the {len(models)} models")
    from tertium.data.readers import first_texts

    chosen = [] if texts is None else first_texts(texts, limit)
    scores: list[float | None] = [*score] or [None] * len(models)
    found = [
        _inspected(name, chosen, tokens=tokens, score=own)
        for name, own in zip(models, scores, strict=True)
    ]
    if len(found) == 1:
        show(found[0], *_inspection_lines(found[0]), as_json=as_json)
        return
    rows = [
        (
            each["model"],
            str(each["backbones"]),
            f"{each['parameters'] / 1e6:.1f}",
            f"{each['head']['parameters'] / 1e6:.2f}" if each["head"] else "",
            f"{each['macs'] / 1e9:.3f}",
            "" if each["score"] is None else f"{each['score']:.2f}",
            "" if each["efficiency"] is None else f"{each['efficiency']:.2f}",
            "" if each["cls_energy"]["mean"] is None else f"{each['cls_energy']['mean']:.4f}",
        )
        for each in found
    ]
    sizes = ("backbones", "M parameters", "M in head", "GMACs")
    header = ("model", *sizes, "score", "per GMAC", "CLS energy")
    show({"models": found}, table(header, rows, right=header[1:]), as_json=as_json)


def _inspected(name: str, texts: list[str], *, tokens: int, score: float | None) -> dict[str, Any]:
    """Size, cost and CLS energy of one model, for JSON."""
    import tertium
    from tertium.analysis.inspection import efficiency, head_parameters, inspect_encoders

    model = tertium.load(name, engine="torch")
    found = inspect_encoders(model.encoders, tokens=tokens, texts=texts)
    parts = head_parameters(model)
    mean = sum(found.energy) / len(found.energy) if found.energy else None
    return {
        "model": name,
        "backbones": found.backbones,
        "parameters": found.parameters,
        "head": {"parameters": sum(parts.values()), "parts": parts} if parts else None,
        "tokens": tokens,
        "macs": found.macs,
        "score": score,
        "efficiency": None if score is None else efficiency(score, found.macs),
        "cls_energy": {"layers": found.energy, "mean": mean, "texts": len(texts)},
    }


def _inspection_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"backbones        {found['backbones']}",
        f"parameters       {found['parameters'] / 1e6:.1f} M",
    ]
    if found["head"]:
        parts = ", ".join(f"{name} {n / 1e6:.2f} M" for name, n in found["head"]["parts"].items())
        lines.append(f"in the head      {found['head']['parameters'] / 1e6:.2f} M: {parts}")
    cost = f"{found['macs'] / 1e9:.3f} GMACs for a text of {found['tokens']} tokens"
    lines.append(f"cost             {cost}")
    if found["efficiency"] is not None:
        lines.append(f"score per cost   {found['efficiency']:.2f} per GMAC")
    energy = found["cls_energy"]
    if energy["mean"] is not None:
        mean = f"{energy['mean']:.4f}, mean of all layers over {energy['texts']} texts"
        lines.append(f"CLS energy       {mean}")
        longest = max(energy["layers"])
        for number, value in enumerate(energy["layers"], 1):
            drawn = "█" * round(30 * value / longest)
            lines.append(f"  layer {number:<8d} {value:.4f} {drawn}")
    return lines


def _tokens(found: "Augmented", order: dict[int, int]) -> "Table":
    # The longest bar is the most attended droppable token, since CLS would dwarf them all.
    candidates = [s for s, may in zip(found.scores, found.droppable, strict=True) if may]
    most = max(candidates or found.scores)
    rows = [
        (
            cell(token, "dim" if at in order else ""),
            f"{score:.2f}",
            bar(score, low=0.0, high=most),
            str(order.get(at, "")),
        )
        for at, (token, score) in enumerate(zip(found.tokens, found.scores, strict=True))
    ]
    return table(("token", "attention", "", "dropped"), rows)
