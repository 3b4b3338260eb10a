"""``tertium explain``: which words made this score?"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli.output import JSON, SCORER, emit, note

if TYPE_CHECKING:
    from tertium.encoders.explanation import Explanation

__all__ = ["explain"]

_SHOWN = 12  # words in the table


def explain(
    a: str = typer.Argument(help="The first text."),
    b: str = typer.Argument(help="The second text."),
    on: str | None = typer.Option(None, help="Compare in this respect."),
    model: str | None = SCORER,
    gradients: bool = typer.Option(False, "--gradients", help="Integrated gradients, too."),
    steps: int = typer.Option(64, min=2, help="Points of that integral."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Folder for explanation.html, .png and .svg."
    ),
    as_json: bool = JSON,
) -> None:
    """Say which words made the score of two texts, and the smallest change that would move it.

    Example: tertium explain "A man plays a guitar." "A woman plays the flute."
    """
    import tertium
    from tertium.analysis import explanation_figure, explanation_html
    from tertium.files import atomic_path
    from tertium.inference.loading import load_conditional

    scorer = load_conditional(model) if on is not None else tertium.load(model or "sts")
    found = scorer.explain(a, b, on=on, gradients=gradients, steps=steps)
    files: list[Path] = []
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        files = [output / f"explanation.{ending}" for ending in ("html", "png", "svg")]
        with atomic_path(files[0]) as temporary:
            temporary.write_text(explanation_html(found), encoding="utf-8")
        figure = explanation_figure(found)
        for file in files[1:]:
            figure.savefig(file, dpi=150)
    if as_json:
        emit({"model": scorer.name, "files": [str(file) for file in files], **_plain(found)})
        return
    _show(found)
    if files:
        note(f"{output}: {', '.join(file.name for file in files)}")


def _plain(found: "Explanation") -> dict[str, Any]:
    """Everything in plain numbers."""
    texts = []
    for side, (text, words) in enumerate(zip(found.texts, found.words, strict=True)):
        entries: list[dict[str, Any]] = [
            {"word": word, "occlusion": value}
            for word, value in zip(words, found.occlusion[side], strict=True)
        ]
        if found.gradients is not None:
            for entry, value in zip(entries, found.gradients.contributions[side], strict=True):
                entry["gradients"] = value
        texts.append({"text": text, "words": entries})
    change, integral = found.smallest, found.gradients
    return {
        "condition": found.condition,
        "score": found.score,
        "scale": list(found.scale),
        "texts": texts,
        "alignment": found.alignment.tolist(),
        "smallest_change": {
            "by": found.moved,
            "reached": change.reached,
            "score": change.score,
            "removed": [
                {"text": side, "word": found.words[side][at], "place": at}
                for side, at in change.removed
            ],
        },
        "gradients": (
            None
            if integral is None
            else {"baseline": integral.baseline, "completeness_error": integral.error}
        ),
    }


def _show(found: "Explanation") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tertium.analysis.explanations import smallest_sentence

    console = Console()
    low, high = found.scale
    graded = (low, high) != (-1.0, 1.0)
    shown = f"{found.score:.2f} of {high:g}" if graded else f"cosine {found.score:.3f}"
    respect = "" if found.condition is None else f", as to: {found.condition}"
    console.print(Text(shown + respect, style="bold"))
    reach = max(abs(v) for values in found.occlusion for v in values) or 1.0
    for words, values in zip(found.words, found.occlusion, strict=True):
        console.print(
            Text(" ").join(_word(w, v / reach) for w, v in zip(words, values, strict=True))
        )
    console.print()
    places = [(side, at) for side, words in enumerate(found.words) for at in range(len(words))]
    places.sort(key=lambda place: -abs(found.occlusion[place[0]][place[1]]))
    headings = ["word", "", "score falls by, without it"]
    headings += ["gradients"] if found.gradients is not None else []
    table = Table(*headings, box=None, pad_edge=False)
    for side, at in places[:_SHOWN]:
        cells = [Text(found.words[side][at]), "AB"[side], f"{found.occlusion[side][at]:+.3f}"]
        if found.gradients is not None:
            cells.append(f"{found.gradients.contributions[side][at]:+.3f}")
        table.add_row(*cells)
    console.print(table)
    console.print(Text(smallest_sentence(found)))
    if found.gradients is not None:
        error = f"{100 * found.gradients.error:.2f} %"
        console.print(f"gradients add up to the score within {error}", style="dim")


def _word(word: str, share: float) -> "Any":
    """A word on blue if it holds the texts together, on orange if it sets them apart."""
    from rich.text import Text

    if abs(share) < 0.15:
        return Text(word)
    colour = (
        ("#0072B2" if abs(share) > 0.5 else "#56B4E9")
        if share > 0
        else ("#D55E00" if abs(share) > 0.5 else "#E69F00")
    )
    return Text(word, style=f"black on {colour}")
