"""``tertium attention``: pictures of what two views of a text attend to."""

from pathlib import Path

import typer

from tertium.cli import corpus
from tertium.cli.output import JSON, MODEL, emit, note, say

__all__ = ["attention"]


def attention(
    texts: Path = corpus.TEXTS,
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the pictures."),
    model: str = MODEL,
    limit: int = typer.Option(200, min=2, help="At most so many texts."),
    seed: int = typer.Option(0, help="Of dropout and of the sampled positions."),
    as_json: bool = JSON,
) -> None:
    """Draw joint attention histograms, and similarity against attention mutual information.

    Example: tertium attention sentences.txt -o pictures
    """
    from tertium.errors import require

    require("report", purpose="Drawing attention", packages=("matplotlib",))
    import itertools

    import tertium
    from tertium.analysis import attention_histograms, information_scatter, pair_information
    from tertium.data.readers import iter_texts
    from tertium.models import Encoder

    loaded = tertium.load(model)
    encoder = loaded if isinstance(loaded, Encoder) else loaded.encoder
    filled = (text for text in iter_texts(texts) if text.strip())
    chosen = list(itertools.islice(filled, limit))
    found = pair_information(encoder, chosen, seed=seed)
    output.mkdir(parents=True, exist_ok=True)
    figures = {
        "attention-information": information_scatter(found),
        "attention-histograms": attention_histograms(encoder, chosen, seed=seed),
    }
    files = [output / f"{name}.{ending}" for name in figures for ending in ("png", "svg")]
    for name, figure in figures.items():
        for ending in ("png", "svg"):
            figure.savefig(output / f"{name}.{ending}", dpi=150)
    same, other = found.positive_information.mean(), found.negative_information.mean()
    if as_json:
        emit(
            {
                "files": [str(file) for file in files],
                "texts": len(chosen),
                "information": {"same": float(same), "different": float(other)},
            }
        )
    else:
        note(f"{output}: {', '.join(file.name for file in files)}")
        say(f"mean attention information: {same:.3f} same text, {other:.3f} two texts")
