"""``tertium evaluate``: a model on the benchmarks."""

from pathlib import Path
from typing import Any

import typer

from tertium.cli import checks
from tertium.cli.output import ENGINE, JSON, NAMED_MODEL, emit, note, say

__all__ = ["evaluate"]

_MARKDOWN = (".md", ".markdown")


def evaluate(
    model: str = NAMED_MODEL,
    suite: str = typer.Option(
        "sts",
        help="sts, transfer, geometry, csts; several with commas.",
        callback=checks.suites,
    ),
    data: Path | None = typer.Option(
        None,
        help="Benchmark folder (default: TERTIUM_DATA, else the hub).",
        callback=checks.data_folder,
    ),
    text: str = typer.Option("senteval", help="senteval (tokenised, as in the papers) or raw."),
    pooling: str | None = typer.Option(
        None, help="Pooling, or several with commas.", callback=checks.poolings
    ),
    baseline: str | None = typer.Option(
        None, help="A second model to test against.", callback=checks.model
    ),
    exclude_overlap: list[str] = typer.Option(
        [],
        help="FILE or FILE:SPLIT whose pairs the leak-free column leaves out; may be repeated.",
    ),
    bootstrap: int = typer.Option(1000, min=0, help="Bootstrap samples; 0 for no intervals."),
    seed: int = typer.Option(0, help="For bootstrap and folds."),
    predictions: Path | None = typer.Option(
        None, help="Also write scores of C-STS's test part, as its authors ask for them: .json."
    ),
    engine: str = ENGINE,
    output: Path | None = typer.Option(None, "--output", "-o", help="Also save as .json or .md."),
    as_json: bool = JSON,
) -> None:
    """Evaluate a model on STS, transfer tasks, the geometry of its space, or conditions.

    Example: tertium evaluate default --suite sts,geometry --data FOLDER
    """
    _check(text, exclude_overlap, predictions, output)
    import tertium
    from tertium.evaluation import Report

    options: dict[str, Any] = {
        "data": data,
        "text": text,
        "baseline": baseline,
        "exclude": exclude_overlap,
        "resamples": bootstrap,
        "seed": seed,
    }
    if predictions is not None:
        _predict(model, predictions, data, engine)
    poolings = [None] if pooling is None else pooling.split(",")
    reports: dict[str, Report] = {}
    for name in poolings:
        loaded = tertium.load(model, pooling=name, engine=engine)
        report = tertium.evaluate(loaded, suite.split(","), **options)
        reports[str(name)] = report
        if not as_json:
            say(f"pooling {name}\n{report}\n" if len(poolings) > 1 else str(report))
    if output is not None:
        _save(reports, output)
        note(f"saved {output}")
    if as_json:
        emit(_json(reports))


def _check(text: str, exclude: list[str], predictions: Path | None, output: Path | None) -> None:
    from tertium.data.benchmarks import check_text
    from tertium.data.overlap import parse_spec
    from tertium.files import check_ending, check_outputs, existing_file

    check_text(text)
    for spec in exclude:
        existing_file(parse_spec(spec)[0])
    if predictions is not None:
        check_ending(predictions, (".json",))
    if output is not None:
        check_ending(output, (".json", *_MARKDOWN))
    check_outputs(None, predictions, output)


def _predict(model: str, path: Path, data: Path | None, engine: str) -> None:
    import tertium
    from tertium.data import find_folder
    from tertium.evaluation.predictions import write_predictions

    scorer = tertium.load(model, engine=engine)
    count = write_predictions(scorer, path, folder=find_folder(data))
    note(f"{path}: {count:,} predictions")


def _json(reports: dict[str, Any]) -> dict[str, Any]:
    """One report as it is; several share model and provenance under their poolings."""
    first, *others = (report.to_json() for report in reports.values())
    if not others:
        return dict(first)
    results = [first["results"], *(other["results"] for other in others)]
    provenance = [first["provenance"], *(other["provenance"] for other in others)]
    return {
        "model": first["model"],
        "poolings": dict(zip(reports, results, strict=True)),
        "provenance": {**provenance[-1], "seconds": sum(p["seconds"] for p in provenance)},
    }


def _save(reports: dict[str, Any], output: Path) -> None:
    import json

    from tertium.files import atomic_path

    if output.suffix.lower() in _MARKDOWN:
        text = "\n".join(report.to_markdown() for report in reports.values())
    else:
        text = json.dumps(_json(reports), indent=2, allow_nan=False) + "\n"
    with atomic_path(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
