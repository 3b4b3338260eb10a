"""Folders of training runs, sweeps and low-shot studies."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tertium.errors import TertiumError

__all__ = ["Log", "Runs", "read_runs"]

_SEED = re.compile(r"-seed\d+$")

Log = list[dict[str, float]]


@dataclass
class Runs:
    """What one folder holds.

    Attributes:
        name: of the folder.
        averages: of a low-shot study, by recipe and number of sentences, a figure per seed.
        variants: of a sweep, by variant, a figure per seed.
        logs: of training, by run and stage.
    """

    name: str
    averages: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    variants: dict[str, list[float]] = field(default_factory=dict)
    logs: dict[str, Log] = field(default_factory=dict)


def read_runs(folders: Sequence[Path]) -> list[Runs]:
    """Read what ``tertium train``, ``sweep`` and ``lowshot`` left in their folders."""
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
                f"{folder} holds no finished run: neither table.json nor run/*/finished.json. Name "
                "a folder of tertium train, sweep or lowshot."
            )
        found.append(runs)
    return found


def _run_name(folder: Path, log: Path) -> str:
    """The run, and its stage where it has several."""
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
        raise TertiumError(f"{path} is not JSON: {error}. Run it again.") from error
