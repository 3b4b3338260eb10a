"""``tertium tune``: which engine is fastest here."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import JSON, MODEL, emit, note

__all__ = ["tune"]


def tune(
    model: str = MODEL,
    seconds: float = typer.Option(30.0, min=0.0, help="For the measurements; exports come on top."),
    texts: Path | None = typer.Option(
        None,
        help="Measure with texts like yours: text file or table (default: sentences).",
        callback=checks.file,
    ),
    exact: bool = typer.Option(
        False, "--exact", help="Leave out engines whose vectors differ by more than rounding."
    ),
    as_json: bool = JSON,
) -> None:
    """Measure engines, threads and batch sizes, and remember the fastest for --engine auto.

    Example: tertium tune --seconds 30
    """
    import itertools

    import tertium
    from tertium.data.readers import iter_texts
    from tertium.engines.parts import parts_of
    from tertium.engines.tuning import machine
    from tertium.engines.tuning import tune as measure

    parts = parts_of(tertium.load(model, device="cpu"))
    work = None
    if texts is not None:
        work = list(itertools.islice((text for text in iter_texts(texts) if text.strip()), 10_000))
    results = []
    for part in parts:
        trials = measure(
            part,
            seconds=seconds / len(parts),
            texts=work,
            exact=exact,
        )
        results.append((part.name, trials))
    if as_json:
        emit(
            {
                "model": model,
                "machine": machine(),
                "parts": [
                    {"name": name, "trials": [trial.model_dump(mode="json") for trial in trials]}
                    for name, trials in results
                ],
            }
        )
        return
    from rich.console import Console
    from rich.table import Table

    for name, trials in results:
        table = Table("engine", "threads", "tokens a batch", "texts/s", box=None, pad_edge=False)
        for trial in trials:
            budget, rate = f"{trial.token_budget:,}", f"{trial.texts_per_second:,.0f}"
            table.add_row(trial.engine, str(trial.threads), budget, rate)
        Console().print(table)
        note(f"{name}: --engine auto is now {trials[0].engine} here")
