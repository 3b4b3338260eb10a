"""``tertium explain``: which words made this score?"""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tertium.cli import checks
from tertium.cli.output import ENGINE, JSON, emit, note

if TYPE_CHECKING:
    from tertium.explain import Explanation

__all__ = ["explain"]

_ENDINGS = (".html", ".png", ".svg")


def explain(
    a: str = typer.Argument(help="The first text."),
    b: str = typer.Argument(help="The second text."),
    on: str | None = typer.Option(None, help="Compare in this respect."),
    model: str | None = typer.Option(
        *(None, "--model", "-m"),
        help="Reserved name, folder or hub id (default: sts; with --on, conditional).",
        callback=checks.model,
    ),
    method: str = typer.Option(
        "occlusion", help="occlusion, or gradients: integrated gradients beside it."
    ),
    steps: int | None = typer.Option(
        None, min=2, help="Points of that integral (default: until its error is below 1 %)."
    ),
    by: float | None = typer.Option(
        None, help="How far the smallest change moves the score (default: 1; of a cosine, 0.2)."
    ),
    most: int = typer.Option(6, min=0, help="Words that this change may take; 0: do not look."),
    engine: str = ENGINE,
    output: list[Path] = typer.Option(
        [], "--output", "-o", help="File to write: .html, .png or .svg; may be repeated."
    ),
    as_json: bool = JSON,
) -> None:
    """Say which words made the score of two texts, and the smallest change that would move it.

    Example: tertium explain "A man plays a guitar." "A woman plays the flute."
    """
    _check(method, output)
    import tertium
    from tertium.models.loading import load_conditional

    scorer = (
        tertium.load(model or "sts", engine=engine)
        if on is None
        else load_conditional(model or "conditional", engine=engine)
    )
    found = scorer.explain(a, b, condition=on, method=method, steps=steps, by=by, most=most)
    for path in output:
        _write(found, path)
    if as_json:
        emit({**found.to_json(), "files": [str(path) for path in output]})
        return
    from tertium.cli.explained import show

    show(found)
    for path in output:
        note(f"wrote {path}")


def _check(method: str, output: list[Path]) -> None:
    """Say what is not known, or cannot be written, before anything is computed."""
    from tertium.errors import TertiumError, require, unknown_name
    from tertium.types import ExplanationMethod

    if method not in set(ExplanationMethod):
        raise unknown_name("method", method, list(ExplanationMethod))
    for path in output:
        if path.suffix.lower() not in _ENDINGS:
            raise TertiumError(f"{path}: an explanation is written as {', '.join(_ENDINGS)}.")
        if path.suffix.lower() != ".html":
            require("report", purpose=f"Drawing {path}", packages=("matplotlib",))


def _write(found: "Explanation", path: Path) -> None:
    from tertium.explain.figures import write_explanation_figure
    from tertium.explain.page import explanation_html
    from tertium.files import atomic_path

    if path.suffix.lower() != ".html":
        write_explanation_figure(found, path)
        return
    with atomic_path(path) as temporary:
        temporary.write_text(explanation_html(found), encoding="utf-8")
