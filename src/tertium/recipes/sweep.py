"""Sweeps: a recipe with several settings and seeds, each run in a process of its own."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from tertium.errors import TertiumError, unknown_name
from tertium.evaluation.report import latex_table, markdown_table
from tertium.files import write_text
from tertium.progress import bar
from tertium.recipes.files import (
    CONFIGS,
    RUN,
    RecipeError,
    parse_settings,
    read_recipe,
    read_yaml,
)
from tertium.records.lock import InUseError, lock

__all__ = [
    *("Sweep", "SweepTable", "Variant"),
    *("read_sweep", "resolve_sweep", "run_all", "run_sweep", "sweep_names"),
]

_FOLDER = CONFIGS / "sweeps"
# Titles of a table's columns and their figures.
_STS = {"STS average": "average", "leak-free": "leak_free"}
_STS_SUITES = ("sts", "sts-short", "sts-b")  # the first that was measured
_MORE = {  # if the recipes' ``evaluate`` includes them
    "transfer average": "transfer",
    "alignment": "alignment",
    "uniformity": "uniformity",
}
_CONDITIONAL = {"held-out fold": "held_out", "C-STS validation": "average"}
_WEIGHTS = ("model.safetensors", "encoder/model.safetensors", "run/*/model.safetensors")


def _settings(given: Any) -> Any:
    """Parse settings that a file has as ``a.b=value`` texts."""
    if isinstance(given, list | tuple) and all(isinstance(text, str) for text in given):
        return parse_settings(given)
    return given


Settings = Annotated[dict[str, Any], BeforeValidator(_settings)]


class Variant(BaseModel):
    """One row of a sweep's table: a name and its settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field(pattern=r"^[\w.=+-]+$")
    recipe: str | None = None
    settings: Settings = Field(default_factory=dict, alias="set")


class Sweep(BaseModel):
    """A recipe, the variants to run, and the seeds of each.

    ``grid`` gives every combination of its values; ``runs`` names variants one by one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    summary: str
    recipe: str
    settings: Settings = Field(default_factory=dict, alias="set")
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    runs: tuple[Variant, ...] = ()
    seeds: tuple[int, ...] = (42,)

    def variants(self) -> list[Variant]:
        """Named runs, then the grid's combinations."""
        combined = []
        if self.grid:
            for values in itertools.product(*self.grid.values()):
                pairs = list(zip(self.grid, values, strict=True))
                name = "+".join(f"{path.rpartition('.')[2]}={_word(v)}" for path, v in pairs)
                combined.append(Variant(name=name, settings=dict(pairs)))
        return [*self.runs, *combined] or [Variant(name="run")]

    def settings_of(self, variant: Variant) -> dict[str, Any]:
        """The settings of all runs, overridden by those of one variant."""
        return {**self.settings, **variant.settings}

    @model_validator(mode="after")
    def _names_differ(self) -> "Sweep":
        names = [variant.name for variant in self.variants()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two runs share a name: {', '.join(twice)}")
        return self


@dataclass(frozen=True)
class SweepTable:
    """Mean and standard deviation over seeds, by variant.

    Attributes:
        summary: summary of the sweep.
        seeds: seeds of every variant.
        scores: every figure, by variant and seed.
        data: the data of a variant's stages, by variant, if less than was published.
    """

    summary: str
    seeds: tuple[int, ...]
    scores: dict[str, dict[int, dict[str, float | None]]]
    data: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[list[str]]:
        """Header and one row per variant."""
        conditional = any(
            "held_out" in run for runs in self.scores.values() for run in runs.values()
        )
        measured = {name for runs in self.scores.values() for run in runs.values() for name in run}
        more = {title: name for title, name in _MORE.items() if name in measured}
        titles = _CONDITIONAL if conditional else {**_STS, **more}
        names = tuple(titles.values())
        header = [
            "variant",
            "runs",
            *(part for title in titles for part in (title, "sd")),
            "minutes",
            *(["data"] if self.data else []),
        ]
        rows = [header]
        for variant, runs in self.scores.items():
            row = [variant, str(len(runs))]
            for figure in names:
                row += _mean_sd([run.get(figure) for run in runs.values()])
            seconds = [run["seconds"] or 0.0 for run in runs.values()]
            row.append(f"{fmean(seconds) / 60:.1f}" if seconds else "")
            rows.append([*row, self.data.get(variant, "")] if self.data else row)
        return rows

    def to_json(self) -> dict[str, Any]:
        """Every run's figures, by variant and seed."""
        return {
            "summary": self.summary,
            "seeds": list(self.seeds),
            "runs": self.scores,
            "data": self.data,
        }

    def to_latex(self) -> str:
        """The table for a paper."""
        header, *rows = self.rows()
        return latex_table(header, rows, caption=self.summary)

    def __str__(self) -> str:
        header, *rows = self.rows()
        return f"{self.summary}\n\n{markdown_table(header, rows)}"


def sweep_names() -> list[str]:
    """Names of the sweeps that come with tertium."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def resolve_sweep(name: str) -> Path:
    """The file of a sweep's name or path."""
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        if name not in sweep_names():
            raise unknown_name("sweep", name, sweep_names(), remedy="Run: tertium recipes")
        return _FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise RecipeError(f"{path}: no such sweep file.")
    return path


def read_sweep(name: str, *, settings: Mapping[str, Any] | None = None) -> Sweep:
    """A sweep by name or file, with further settings of every run; every recipe is validated."""
    path = resolve_sweep(name)
    try:
        found = Sweep.model_validate(read_yaml(path))
    except UnicodeEncodeError as error:
        raise RecipeError(f"The sweep '{name}' names a setting that is not text.") from error
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, e['loc'])) or 'sweep'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
        raise RecipeError(f"The sweep '{name}' has mistakes:\n  " + "\n  ".join(lines)) from error
    found = found.model_copy(update={"settings": {**found.settings, **(settings or {})}})
    for variant in found.variants():
        read_recipe(variant.recipe or found.recipe, settings=found.settings_of(variant))
    return found


def run_sweep(
    name: str,
    output: Path,
    *,
    data: Path | None = None,
    jobs: int = 1,
    keep_models: bool = False,
    strict_data: bool = False,
    settings: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> SweepTable:
    """Run what is not finished yet, and return the table of all runs.

    Args:
        name: a sweep's name or file.
        output: folder for one folder per run.
        settings: settings of every run by their path, overriding the sweep's own.
        data: benchmark folder.
        jobs: runs at a time; each gets its share of the cores.
        keep_models: keep weights; scores, recipes and logs are always kept.
        strict_data: a run with less data than its recipe requests fails.
        say: called with progress messages.
    """
    found = read_sweep(name, settings=settings)
    table = run_all(
        found,
        output,
        data=data,
        jobs=jobs,
        keep_models=keep_models,
        strict_data=strict_data,
        say=say,
    )
    write_text(output / "table.md", str(table) + "\n")
    write_text(output / "table.tex", table.to_latex() + "\n")
    return table


def run_all(
    sweep: Sweep,
    output: Path,
    *,
    data: Path | None,
    jobs: int,
    keep_models: bool = False,
    strict_data: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> SweepTable:
    """Run what is not finished yet of a validated sweep; arguments as for :func:`run_sweep`.

    Two calls on the same folder share the work: a run that another process has started is left to
    it and waited for at the end.
    """
    runs = list(_runs(sweep, output))
    open_runs = [run for run in runs if not _finished(run[2])]
    say(f"{len(runs)} runs, {len(runs) - len(open_runs)} of them finished before")
    start = time.monotonic()
    one_run = partial(
        _run, sweep, data=data, jobs=jobs, keep_models=keep_models, strict_data=strict_data
    )
    with (
        ThreadPoolExecutor(jobs) as pool,
        bar(total=len(open_runs), label=output.name, unit="run") as shown,
    ):
        work = {
            pool.submit(_claim, run[2], partial(one_run, *run), wait=False): run
            for run in open_runs
        }
        try:
            left_to_others = []
            for number, job in enumerate(as_completed(work), 1):
                folder = work[job][2]
                shown.update()
                if not job.result():
                    left_to_others.append(work[job])
                    continue
                rest = (time.monotonic() - start) / number * (len(open_runs) - number)
                average = _figures(folder)["average"]
                figure = "without a figure" if average is None else f"{average:.2f}"
                say(
                    f"{number} of {len(open_runs)}: {folder.name} {figure}, "
                    f"about {rest / 60:.0f} minutes left"
                )
            for run in left_to_others:
                say(f"waiting for {run[2].name}, which another process runs")
                _claim(run[2], partial(one_run, *run), wait=True)
        except BaseException:  # a failed run or Ctrl-C: start no other
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    scores: dict[str, dict[int, dict[str, float | None]]] = {}
    partial_data: dict[str, str] = {}
    for variant, seed, folder in runs:
        scores.setdefault(variant.name, {})[seed] = _figures(folder)
        less = _partial_data(folder)
        if less:
            partial_data[variant.name] = less
    return SweepTable(sweep.summary, sweep.seeds, scores, partial_data)


def _runs(sweep: Sweep, output: Path) -> Iterator[tuple[Variant, int, Path]]:
    for variant in sweep.variants():
        for seed in sweep.seeds:
            yield variant, seed, output / f"{variant.name}-seed{seed}"


def _claim(folder: Path, run: Callable[[], None], *, wait: bool) -> bool:
    """Run unless it is finished; False if another process is at it and ``wait`` is not set."""
    try:
        with lock(folder / ".lock", wait=None if wait else 0):
            if not _finished(folder):
                run()
    except InUseError:
        return False
    return True


def _run(
    sweep: Sweep,
    variant: Variant,
    seed: int,
    folder: Path,
    *,
    data: Path | None,
    jobs: int,
    keep_models: bool,
    strict_data: bool,
) -> None:
    """One ``tertium train`` in a process of its own, resumed if it was begun."""
    command = [sys.executable, "-m", "tertium", "train", variant.recipe or sweep.recipe]
    command += ["-o", str(folder), "--seed", str(seed), "--json"]
    for place, value in sweep.settings_of(variant).items():
        command += ["--set", f"{place}={json.dumps(value, ensure_ascii=False)}"]
    command += ["--resume"] if (folder / RUN).exists() else []
    command += ["--data", str(data)] if data is not None else []
    command += ["--strict-data"] if strict_data else []
    threads = str(max((os.cpu_count() or 1) // jobs, 1))
    with (folder / "output.log").open("w") as log:
        done = subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={"OMP_NUM_THREADS": threads, **os.environ},
            check=False,
        )
    if done.returncode:
        tail = (folder / "output.log").read_text(errors="replace").strip().splitlines()
        raise TertiumError(f"{folder.name} failed: {tail[-1] if tail else 'no message'}")
    if not _finished(folder):
        raise TertiumError(f"{folder.name} made no report: a sweep needs benchmark data (--data).")
    if not keep_models:
        for pattern in _WEIGHTS:
            for path in folder.glob(pattern):
                path.unlink()


def _word(value: Any) -> str:
    """A value of a grid as part of a folder's name."""
    if isinstance(value, list):
        return "_".join(map(_word, value))
    return re.sub(r"[^\w.+-]+", "", str(value))


def _finished(folder: Path) -> bool:
    return (folder / "report.json").exists()


def _figures(folder: Path) -> dict[str, float | None]:
    results = json.loads((folder / "report.json").read_text())["results"]
    if "csts" in results:
        return _conditional_figures(folder, results["csts"])
    figures: dict[str, float | None] = {"average": None, "leak_free": None}
    sts = next((results[name] for name in _STS_SUITES if name in results), None)
    if sts is not None:
        figures = {
            "average": sts["average"],
            "leak_free": sts.get("leak_free", {}).get("spearman"),
            **{task: values["spearman"] for task, values in sts["tasks"].items()},
        }
    if "transfer" in results:
        transfer = results["transfer"]
        figures["transfer"] = transfer["average"]
        figures |= {task: values["accuracy"] for task, values in transfer["tasks"].items()}
    if "geometry" in results:
        shape = results["geometry"]
        figures |= {name: shape[name] for name in ("alignment", "uniformity")}
    figures["seconds"] = float((folder / "run" / "seconds.txt").read_text())
    return figures


def _partial_data(folder: Path) -> str:
    """What a run's stages ran on, where that is less than was published or asked for."""
    from tertium.recipes.data import Amount  # not before it is needed: it imports torch

    record = folder / "run" / "data.json"
    stages = json.loads(record.read_text()) if record.exists() else {}
    amounts = [Amount(**stage["amount"]) for stage in stages.values() if "amount" in stage]
    return "; ".join(dict.fromkeys(str(amount) for amount in amounts if amount.partial))


def _conditional_figures(folder: Path, csts: dict[str, Any]) -> dict[str, float | None]:
    """What chose the checkpoint, best first, and what C-STS's validation part says."""
    logs = sorted((folder / "run").glob("*/finished.json"))
    entries = json.loads(logs[-1].read_text()) if logs else []
    chosen = [entry["eval_score"] for entry in entries if "eval_score" in entry]
    seconds = float((folder / "run" / "seconds.txt").read_text())
    (values,) = csts["tasks"].values()
    return {
        "average": csts["average"],
        "held_out": max(chosen, default=None),
        "seconds": seconds,
        "pearson": values["pearson"],
        "direction": values["sensitivity"]["direction"],
    }


def _mean_sd(values: Sequence[float | None]) -> list[str]:
    defined = [value for value in values if value is not None]
    if not defined:
        return ["", ""]
    spread = f"{stdev(defined):.2f}" if len(defined) > 1 else ""
    return [f"{fmean(defined):.2f}", spread]
