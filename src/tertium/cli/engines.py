"""``tertium export`` and ``tertium tune``: run models on engines that are faster than torch."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tertium.cli import checks, options
from tertium.cli.output import note, show, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tertium.engines.export import ExportedPart
    from tertium.engines.tuning import Trial
    from tertium.models.base import Model

__all__ = ["export", "tune"]


def export(
    engine: Annotated[
        str,
        typer.Option(
            help="onnx, onnx-int8, openvino, openvino-int8, or static for huge corpora.",
            callback=checks.engine,
        ),
    ],
    model: options.ModelArgument = "default",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="New folder for the model with its export (default: the cache)."
        ),
    ] = None,
    keep_float: Annotated[
        int | None,
        typer.Option(
            min=0, help="For int8: keep the N most sensitive layers in float (default: 0)."
        ),
    ] = None,
    data: options.DataFolder = None,
    evaluation: Annotated[
        bool, typer.Option(help="Show the change on the benchmark, if its data is found.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Export a model for an engine, and show how close it comes to torch.

    Example: tertium export default --engine onnx-int8
    """
    from tertium.data.benchmarks import find_folder
    from tertium.engines import check_export

    check_export(engine, output=output, keep_float=keep_float)
    from tertium.engines.export import export as write

    folder = find_folder(data) if evaluation else None
    loaded = _torch_first(model)
    parts = write(loaded, engine, output=output, keep_float=keep_float)
    if evaluation and folder is None:
        note("note: no benchmark folder was found, so the change on STS is unknown.")
    change = None if folder is None else _change(loaded, model, engine, folder)
    document = {
        "model": model,
        "engine": engine,
        "output": None if output is None else str(output),
        "parts": [_part(part) for part in parts],
        "evaluation": change,
    }
    lines = [f"{part.name}: {_figures(part)}" for part in parts]
    if change is not None:
        lines.append(
            f"{change['suite']}: torch {change['torch']:.2f}, {engine} {change['engine']:.2f}, "
            f"change {change['change']:+.2f}"
        )
    sizes = [f"{part.folder}: {part.record.size / 1e6:.1f} MB" for part in parts]
    show(document, *lines, as_json=as_json, notes=sizes)


def tune(
    model: options.Model = "default",
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Time for the measurements; exports take extra.")
    ] = 30.0,
    texts: Annotated[
        Path | None,
        typer.Option(
            help="Text file or table to measure with (default: everyday sentences).",
            callback=checks.file,
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Skip engines whose vectors differ by more than rounding."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Measure engines, threads and batch sizes, and remember the fastest for the engine auto.

    Example: tertium tune --seconds 30
    """
    from tertium.data.readers import first_texts
    from tertium.engines.graphs import graphs_of
    from tertium.engines.tuning import machine
    from tertium.engines.tuning import tune as measure

    parts = graphs_of(_torch_first(model))
    work = None if texts is None else first_texts(texts, 10_000)
    results = [
        (part.name, measure(part, seconds=seconds / len(parts), texts=work, exact=exact))
        for part in parts
    ]
    document = {
        "model": model,
        "machine": machine(),
        "parts": [
            {"name": name, "trials": [trial.model_dump(mode="json") for trial in trials]}
            for name, trials in results
        ],
    }
    show(
        document,
        *(_trials(trials) for _, trials in results),
        as_json=as_json,
        notes=[f"{name}: --engine auto is now {trials[0].engine} here" for name, trials in results],
    )


def _trials(trials: "Sequence[Trial]") -> "Table":
    rows = (
        (
            str(trial.engine),
            str(trial.threads),
            f"{trial.token_budget:,}",
            f"{trial.texts_per_second:,.0f}",
        )
        for trial in trials
    )
    return table(("engine", "threads", "tokens per batch", "texts/s"), rows)


def _part(part: "ExportedPart") -> dict[str, Any]:
    record = part.record
    return {
        "name": part.name,
        "folder": str(part.folder),
        "bytes": record.size,
        "parity": None if record.parity is None else record.parity.model_dump(),
        "settings": record.settings,
    }


def _torch_first(model: str) -> "Model":
    """The model on torch and the CPU, for comparison; without torch, on its default engine."""
    import tertium

    by_torch: dict[str, Any] = {"engine": "torch", "device": "cpu"} if find_spec("torch") else {}
    return tertium.load(model, **by_torch)


def _figures(part: "ExportedPart") -> str:
    if part.record.parity is not None:
        return str(part.record.parity)
    settings = part.record.settings
    if "dimensions" not in settings:
        return "not compared: torch is not installed"
    return (
        f"{settings['dimensions']} dimensions; rank correlation with torch's cosines on sample "
        f"pairs {settings['agreement']:.3f}"
    )


def _change(loaded: "Model", model: str, engine: str, folder: Path) -> dict[str, Any]:
    """The main benchmark score with torch and with the engine."""
    import tertium

    suite = "csts" if loaded.takes_conditions else "sts"
    figures: list[float] = []
    for running in (loaded, tertium.load(model, engine=engine)):
        report = tertium.evaluate(running, suite, data=folder, resamples=0)
        result = report.suites[0]
        values = result.tasks[0].values if result.average is None else result.average
        figures.append(float(values["average" if "average" in values else result.headline] or 0.0))
    before, after = figures
    return {"suite": suite, "torch": before, "engine": after, "change": after - before}
