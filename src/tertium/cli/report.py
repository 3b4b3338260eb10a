"""``tertium report``: a page about models."""

from pathlib import Path

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON, emit, note, say

__all__ = ["report"]


def report(
    models: list[str] = typer.Argument(help="Reserved names, folders or hub ids."),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the page."),
    pairs: list[Path] = typer.Option(
        [],
        help="Graded pairs, or triples with a column condition; may be repeated.",
        callback=checks.files,
    ),
    texts: Path | None = typer.Option(
        None, help="Texts to look at attention on.", callback=checks.file
    ),
    scale: str | None = typer.Option(
        None, help="Lowest and highest grade of the pairs, as 0-4 (default: what they span)."
    ),
    sentence: str | None = typer.Option(None, help="Whose attention maps are drawn."),
    data: Path | None = DATA,
    sets: str | None = typer.Option(
        None, help="Benchmark sets with commas, or none (default: all STS, C-STS; none with pairs)."
    ),
    runs: list[Path] = typer.Option(
        [], help="Folder of tertium train, sweep or lowshot; may be repeated."
    ),
    limit: int = typer.Option(5000, min=10, help="At most so many pairs of a set."),
    bootstrap: int = typer.Option(1000, min=1, help="Bootstrap samples."),
    seed: int = typer.Option(0, help="Of all that is drawn."),
    as_json: bool = JSON,
) -> None:
    """Write one page with results, figures, mistakes and commands; it needs no network.

    Example: tertium report default sts --pairs my_pairs.tsv -o report
    """
    from tertium.data import find_folder
    from tertium.errors import require

    require("report", purpose="A report", packages=("jinja2", "matplotlib"))
    benchmarks = _sets(sets, own=bool(pairs))
    _check_models(models)
    from tertium.report import build_report
    from tertium.report.build import SENTENCE

    built = build_report(
        models,
        output,
        pairs=pairs,
        scale=None if scale is None else _scale(scale),
        texts=texts,
        benchmarks=benchmarks,
        folder=find_folder(data),
        runs=runs,
        sentence=sentence or SENTENCE,
        limit=limit,
        resamples=bootstrap,
        seed=seed,
    )
    if as_json:
        emit({"output": str(output), **built.numbers})
    else:
        figures = sum(1 for file in built.numbers["files"] if file.endswith(".svg"))
        count = len(built.numbers["models"])
        plural = "" if count == 1 else "s"
        say(f"{built.page}: {count} model{plural}, {figures} figures")
        for entry in built.numbers["left_out"]:
            whose = f", {entry['model']}" if entry["model"] else ""
            note(f"left out: {entry['section']}{whose}: {entry['reason']}")
    for failure in built.broken:
        note(f"error: {failure.model}, while {failure.while_doing}: {failure.error}")
    if built.broken:
        raise typer.Exit(2)


def _scale(given: str) -> tuple[float, float]:
    from tertium.errors import TertiumError

    low, _, high = given.rpartition("-")
    try:
        found = float(low), float(high)
    except ValueError:
        raise TertiumError(
            f"--scale {given}: write the lowest and highest grade, as 0-4."
        ) from None
    if found[0] >= found[1]:
        raise TertiumError(f"--scale {given}: the lowest grade comes first, as 0-4.")
    return found


def _check_models(names: list[str]) -> None:
    """Raise if none is there; of several, the page tells which one is not."""
    from tertium.errors import TertiumError

    missing: list[TertiumError] = []
    for name in names:
        try:
            checks.model(name)
        except TertiumError as error:
            missing.append(error)
    if len(missing) == len(names):
        raise missing[0]


def _sets(given: str | None, *, own: bool) -> list[str]:
    """Benchmark sets that were asked for; with pairs of one's own none, unless they are named."""
    from tertium.errors import unknown_name
    from tertium.recipes.suites import suites

    known = [*suites()["sts"].tasks, *suites()["csts"].tasks]
    if given is None:
        return [] if own else known
    names = [name.strip() for name in given.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if name not in known:
            raise unknown_name("graded set", name, known)
    return names
