"""``tertium export``: a model as a graph for a faster engine, checked against torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli import checks
from tertium.cli.output import DATA, JSON, NAMED_MODEL, emit, note, say

if TYPE_CHECKING:
    from tertium.engines.export import ExportedPart
    from tertium.engines.parts import Model

__all__ = ["export"]


def export(
    model: str = NAMED_MODEL,
    engine: str = typer.Option(
        ...,
        help="onnx, onnx-int8, openvino, openvino-int8, or static for huge corpora.",
        callback=checks.engine,
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="New folder for the model with its export (default: cache)."
    ),
    keep_float: int | None = typer.Option(
        None, min=0, help="For int8: leave so many layers in float, those that hurt most."
    ),
    data: Path | None = DATA,
    evaluation: bool = typer.Option(
        True, help="Show the change on the benchmark, if data are found."
    ),
    as_json: bool = JSON,
) -> None:
    """Export a model for an engine, and show how near it comes to torch.

    Example: tertium export default --engine onnx-int8
    """
    from tertium.data.benchmarks import find_folder
    from tertium.engines import check_export

    check_export(engine, output=output, keep_float=keep_float)
    import tertium
    from tertium.engines.export import export as write

    folder = find_folder(data) if evaluation else None
    loaded = tertium.load(model, device="cpu")
    parts = write(loaded, engine, output=output, keep_float=keep_float)
    if evaluation and folder is None:
        note("note: no benchmark folder was found, so the change on STS is not known.")
    change = None if folder is None else _change(loaded, model, engine, folder)
    if as_json:
        emit(
            {
                "model": model,
                "engine": engine,
                "output": None if output is None else str(output),
                "parts": [_part(part) for part in parts],
                "evaluation": change,
            }
        )
        return
    for part in parts:
        say(f"{part.name}: {_figures(part)}")
        note(f"{part.folder}: {part.record.size / 1e6:.1f} MB")
    if change is not None:
        say(
            f"{change['suite']}: torch {change['torch']:.2f}, {engine} {change['engine']:.2f}, "
            f"change {change['change']:+.2f}"
        )


def _part(part: "ExportedPart") -> dict[str, Any]:
    record = part.record
    return {
        "name": part.name,
        "folder": str(part.folder),
        "bytes": record.size,
        "parity": None if record.parity is None else record.parity.model_dump(),
        "settings": record.settings,
    }


def _figures(part: "ExportedPart") -> str:
    if part.record.parity is not None:
        return str(part.record.parity)
    settings = part.record.settings
    return (
        f"{settings['dimensions']} dimensions, cosines of sample pairs correlate with torch's by "
        f"{settings['agreement']:.3f}"
    )


def _change(loaded: "Model", model: str, engine: str, folder: Path) -> dict[str, Any]:
    """The headline figure of the benchmark by torch and by the engine."""
    import tertium
    from tertium.models.grading import TripleGrader

    suite = "csts" if isinstance(loaded, TripleGrader) else "sts"
    figures: list[float] = []
    for running in (loaded, tertium.load(model, engine=engine)):
        report = tertium.evaluate(running, suite, data=folder, resamples=0)
        result = report.suites[0]
        values = result.tasks[0].values if result.average is None else result.average
        figures.append(float(values["average" if "average" in values else result.headline] or 0.0))
    before, after = figures
    return {"suite": suite, "torch": before, "engine": after, "change": after - before}
