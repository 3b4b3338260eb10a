"""``tertium inspect``: what a model is made of and what it costs."""

import itertools
from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import JSON, NAMED_MODEL, emit, say

__all__ = ["inspect"]

_BAR = 30


def inspect(
    model: str = NAMED_MODEL,
    texts: Path | None = typer.Option(
        None,
        help="Text file or table: measure the CLS energy of each layer on it.",
        callback=checks.file,
    ),
    limit: int = typer.Option(1000, min=1, help="At most so many texts."),
    tokens: int = typer.Option(32, min=1, help="Length of the text whose cost is counted."),
    score: float | None = typer.Option(
        None, help="A benchmark figure of the model, to see what a point of it costs."
    ),
    as_json: bool = JSON,
) -> None:
    """Show a model's parts, its cost for one text, and how much of its energy is in CLS.

    Example: tertium inspect default --score 78.87
    """
    import tertium
    from tertium.analysis.inspection import inspect_encoders
    from tertium.data.readers import iter_texts
    from tertium.functional.cost import efficiency
    from tertium.models import Encoder, Ensemble

    loaded = tertium.load(model)
    if isinstance(loaded, Ensemble):
        encoders = [member.encoder for member in loaded.members]
    else:
        encoders = [loaded if isinstance(loaded, Encoder) else loaded.encoder]
    chosen: list[str] = []
    if texts is not None:
        filled = (text for text in iter_texts(texts) if text.strip())
        chosen = list(itertools.islice(filled, limit))
    found = inspect_encoders(encoders, tokens=tokens, texts=chosen)
    eta = None if score is None else efficiency(score, found.macs)
    mean = sum(found.energy) / len(found.energy) if found.energy else None
    if as_json:
        emit(
            {
                "model": model,
                "backbones": found.backbones,
                "parameters": found.parameters,
                "tokens": tokens,
                "macs": found.macs,
                "efficiency": eta,
                "cls_energy": {"layers": found.energy, "mean": mean, "texts": len(chosen)},
            }
        )
        return
    say(f"backbones        {found.backbones}")
    say(f"parameters       {found.parameters / 1e6:.1f} M")
    say(f"cost             {found.macs / 1e9:.3f} GMACs for a text of {tokens} tokens")
    if eta is not None:
        say(f"score for cost   {eta:.2f} a GMAC")
    if mean is not None:
        say(f"CLS energy       {mean:.4f}, the mean of all layers over {len(chosen)} texts")
        longest = max(found.energy)
        for number, energy in enumerate(found.energy, 1):
            say(f"  layer {number:<8d} {energy:.4f} {'█' * round(_BAR * energy / longest)}")
