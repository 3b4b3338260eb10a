"""Reads folders of training runs, sweeps and low-shot studies, and the section on them."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tertium.analysis import low_shot_curves, low_shot_gains, training_curves, variant_figure
from tertium.analysis.curves import TRACED
from tertium.errors import TertiumError
from tertium.report.page import Block, Drawn, LeftOut, Note, Section, Table, alt_text

__all__ = ["Log", "Runs", "read_runs", "runs_section"]

_SEED = re.compile(r"-seed\d+$")

Log = list[dict[str, float]]


@dataclass
class Runs:
    """The runs in one folder.

    Attributes:
        name: name of the folder.
        averages: results of a low-shot study by recipe and number of sentences, one per seed.
        variants: results of a sweep by variant, one per seed.
        logs: training logs by run and stage.
    """

    name: str
    averages: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    variants: dict[str, list[float]] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)


def read_runs(folders: Sequence[Path]) -> list[Runs]:
    """Read the output of ``tertium train``, ``sweep`` and ``lowshot``."""
    found = []
    for folder in folders:
        runs = Runs(folder.name or str(folder))
        table = folder / "table.json"
        if table.is_file():
            recipes = _json(table).get("recipes", {})
            runs.averages = {
                recipe: {int(size): entry["averages"] for size, entry in by_size.items()}
                for recipe, by_size in recipes.items()
            }
        for report in sorted(folder.glob("*/report.json")):
            average = _average(_json(report))
            if average is not None and not runs.averages:
                variant = _SEED.sub("", report.parent.name)
                runs.variants.setdefault(variant, []).append(average)
        for log in sorted([*folder.glob("run/*/finished.json"), *folder.glob("*/run/*/*.json")]):
            if log.name == "finished.json":
                runs.logs[_run_name(folder, log)] = _json(log)
        if not (runs.averages or runs.variants or runs.logs):
            raise TertiumError(
                f"{folder} contains no finished run: neither table.json nor run/*/finished.json. "
                "Give a folder of tertium train, sweep or lowshot."
            )
        found.append(runs)
    return found


def _run_name(folder: Path, log: Path) -> str:
    """The run, and its stage if it has several."""
    run = log.parents[2]
    several = len(list((run / "run").glob("*/finished.json"))) > 1
    stage = f", {log.parent.name}" if several or run == folder else ""
    return f"{run.name}{stage}"


def _average(report: dict[str, Any]) -> float | None:
    results = report.get("results", {})
    for suite in ("sts", "csts"):
        if suite in results:
            value = results[suite].get("average")
            return None if value is None else float(value)
    return None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TertiumError(f"{path} is not JSON: {error}. Repeat the run.") from error


_CURVES = 7  # more lines than colours cannot be distinguished


def runs_section(found: Sequence[Runs]) -> tuple[Section | None, list[LeftOut]]:
    """Low-shot curves, variants and training curves."""
    if not found:
        reason = "no runs were given (--runs DIR), so there are no low-shot or training curves."
        return None, [LeftOut("runs", None, reason)]
    blocks: list[Block] = []
    left_out: list[LeftOut] = []
    for number, runs in enumerate(found, 1):
        if runs.averages:
            blocks += _low_shot(runs, number)
        if len(runs.variants) > 1 or any(len(v) > 1 for v in runs.variants.values()):
            blocks += _variants(runs, number)
        logged = {name: log for name, log in runs.logs.items() if _traced(log)}
        left_out += [
            LeftOut("runs", None, f"{runs.name}: {name} is too short to have logged anything.")
            for name in runs.logs
            if name not in logged
        ]
        if logged:
            blocks += _training(runs.name, logged, number)
    if not blocks:
        return None, left_out
    numbers = {
        runs.name: {
            "low_shot": {
                recipe: {str(size): values for size, values in by_size.items()}
                for recipe, by_size in runs.averages.items()
            },
            "variants": runs.variants,
            "logs": runs.logs,
        }
        for runs in found
    }
    return Section.of("runs", tuple(blocks), numbers), left_out


def _traced(log: Log) -> bool:
    return any(key in entry and "step" in entry for entry in log for key in TRACED)


def _low_shot(runs: Runs, number: int) -> list[Block]:
    baseline = next(iter(runs.averages))
    blocks: list[Block] = [
        Drawn.of(
            "low-shot",
            low_shot_curves(runs.averages),
            number=number,
            alt=_told(runs.averages),
            runs=runs.name,
        )
    ]
    if len(runs.averages) > 1:
        blocks.append(
            Drawn.of(
                "low-shot-gains",
                low_shot_gains(runs.averages, baseline=baseline),
                number=number,
                alt=f"Lines of differences from {baseline}.",
                baseline=baseline,
                runs=runs.name,
            )
        )
    return blocks


def _variants(runs: Runs, number: int) -> list[Block]:
    rows = [
        [name, str(len(values)), f"{fmean(values):.2f}", _spread(values)]
        for name, values in runs.variants.items()
    ]
    return [
        Drawn.of(
            "variants",
            variant_figure(runs.variants),
            number=number,
            alt=alt_text("", (f"{row[0]} {row[2]}" for row in rows)),
            runs=runs.name,
        ),
        Table(
            f"Variants of {runs.name}: Spearman, times 100.",
            ["variant", "seeds", "mean", "standard deviation"],
            rows,
            folded=True,
        ),
    ]


def _training(name: str, logs: Mapping[str, Log], number: int) -> list[Block]:
    shown = dict(list(logs.items())[:_CURVES])
    blocks: list[Block] = [
        Drawn.of(
            "training",
            training_curves(shown),
            number=number,
            alt=f"Curves of {len(shown)} runs.",
            runs=name,
        )
    ]
    if len(logs) > _CURVES:
        text = f"{name} has {len(logs)} logs; the first {_CURVES} are drawn."
        blocks.append(Note(text))
    return blocks


def _spread(values: Sequence[float]) -> str:
    return f"{stdev(values):.2f}" if len(values) > 1 else ""


def _told(averages: Mapping[str, Mapping[int, Sequence[float]]]) -> str:
    return alt_text(
        "",
        (
            f"{recipe}: "
            + ", ".join(f"{fmean(values):.1f} at {size:,}" for size, values in by_size.items())
            for recipe, by_size in averages.items()
        ),
    )
