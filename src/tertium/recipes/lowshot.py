"""The low-shot protocol: the score of a method with few sentences and equal steps."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import yaml

from tertium.data import benchmarks
from tertium.errors import TertiumError
from tertium.evaluation.report import markdown_table
from tertium.files import write_text
from tertium.recipes.data import load_examples
from tertium.recipes.files import RUN, RecipeError, parse_settings, read_recipe
from tertium.recipes.sweep import Sweep, Variant, run_all

__all__ = ["LowShotTable", "run_low_shot"]


@dataclass(frozen=True)
class LowShotTable:
    """STS averages by recipe and number of sentences.

    Attributes:
        steps: optimiser steps of every run.
        sizes: numbers of sentences.
        averages: one score per seed, by recipe and size.
        subsets: hashes of the sentences, by size and seed, the same for all recipes.
    """

    steps: int
    sizes: tuple[int, ...]
    averages: dict[str, dict[int, list[float]]]
    subsets: dict[int, list[str]]

    def to_json(self) -> dict[str, Any]:
        """All scores, with their means and standard deviations."""
        return {
            "steps": self.steps,
            "recipes": {
                recipe: {
                    str(size): {
                        "averages": values,
                        "mean": fmean(values),
                        "sd": stdev(values) if len(values) > 1 else None,
                    }
                    for size, values in by_size.items()
                }
                for recipe, by_size in self.averages.items()
            },
            "subsets": {str(size): digests for size, digests in self.subsets.items()},
        }

    def __str__(self) -> str:
        header = ["recipe", *(f"{size:,} sentences" for size in self.sizes)]
        rows = [
            [recipe, *(_mean_sd(by_size[size]) for size in self.sizes)]
            for recipe, by_size in self.averages.items()
        ]
        title = f"STS average after {self.steps} steps, mean ± standard deviation over seeds"
        return f"{title}\n\n{markdown_table(header, rows)}"


def run_low_shot(
    recipes: Sequence[str],
    output: Path,
    *,
    sizes: Sequence[int],
    seeds: int,
    steps: int,
    settings: Sequence[str] = (),
    data: Path | None = None,
    jobs: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> LowShotTable:
    """Train every recipe on every number of sentences with every seed, and tabulate the scores.

    Each seed draws its own sentences by their hashes; they are the same for all recipes, and a
    smaller set is part of a larger one. Finished runs are skipped, so a killed call can be resumed.

    Args:
        recipes: recipes whose first stage learns from texts.
        output: folder for the runs, ``table.md``, ``table.json`` and the plots.
        sizes: numbers of sentences.
        seeds: number of seeds.
        steps: optimiser steps, equal for all.
        settings: changes of all runs as ``a.b=value``, or of some with ``RECIPE:``, ``@SIZE:`` or
            ``RECIPE@SIZE:`` before it, such as a weight that depends on the size.
        data: benchmark folder.
        jobs: runs at a time.
        say: called with progress messages.
    """
    _check(recipes, sizes)
    sweep = Sweep(
        summary="low-shot",
        recipe=recipes[0],
        runs=tuple(
            _variant(recipe, size, steps, _own_settings(settings, recipe, size, recipes, sizes))
            for recipe in recipes
            for size in sizes
        ),
        seeds=tuple(range(1, seeds + 1)),
    )
    _check_steps(sweep, output, steps)
    _check_sentences(recipes, max(sizes), data)
    found = run_all(sweep, output, data=data, jobs=jobs, say=say)
    averages: dict[str, dict[int, list[float]]] = {}
    subsets: dict[int, list[str]] = {}
    for recipe in recipes:
        for size in sizes:
            name = _name(recipe, size)
            runs = found.scores[name].values()
            averages.setdefault(recipe, {})[size] = [float(run["average"] or 0.0) for run in runs]
            digests = [_digest(output / f"{name}-seed{seed}") for seed in sweep.seeds]
            if subsets.setdefault(size, digests) != digests:
                raise TertiumError(f"{recipe} saw other sentences than {recipes[0]} at {size}.")
    table = LowShotTable(steps, tuple(sizes), averages, subsets)
    for file, text in (
        ("table.md", str(table)),
        ("table.json", json.dumps(table.to_json(), indent=2)),
    ):
        write_text(output / file, text + "\n")
    return table


def _check(recipes: Sequence[str], sizes: Sequence[int]) -> None:
    for recipe in recipes:
        stage, *more = read_recipe(recipe).stages
        if more:
            raise TertiumError(
                f"{recipe} has {1 + len(more)} stages: sizes and steps are compared for one."
            )
        if stage.data.kind != "texts":
            raise TertiumError(f"{recipe} learns from {stage.data.kind}, not from texts.")
        if min(sizes) < stage.train.batch_size:
            raise TertiumError(
                f"{min(sizes)} sentences do not fill {recipe}'s batch of {stage.train.batch_size}."
            )
    names = {Path(recipe).name for recipe in recipes}
    if len(set(sizes)) < len(sizes) or len(names) < len(recipes):
        raise TertiumError("Give every recipe and every size once.")


def _check_sentences(recipes: Sequence[str], most: int, data: Path | None) -> None:
    """Raise unless there are as many sentences as the largest run needs."""
    folder = benchmarks.find_folder(data)
    counted: dict[object, int] = {}
    for recipe in recipes:
        stage = read_recipe(recipe, settings={"stages.0.data.limit": most}).stages[0]
        sources = stage.data.sources
        if sources not in counted:
            found = load_examples(stage, folder=folder)
            counted[sources] = len(found.examples) + len(found.held_out)
        if counted[sources] < most:
            raise TertiumError(
                f"{recipe} has {counted[sources]:,} different sentences, not {most:,}: give "
                "smaller --sizes."
            )


def _check_steps(sweep: Sweep, output: Path, steps: int) -> None:
    """Raise unless existing runs have the same number of steps."""
    for variant in sweep.variants():
        for seed in sweep.seeds:
            record = output / f"{variant.name}-seed{seed}" / RUN
            if not record.exists():
                continue
            taken = yaml.safe_load(record.read_text("utf-8"))["stages"][0]["train"]["max_steps"]
            if taken != steps:
                raise TertiumError(
                    f"{output} holds runs of {taken} steps: give --steps {taken}, or choose "
                    "another folder."
                )


def _name(recipe: str, size: int) -> str:
    """The name of a run's folder; of a recipe's file, only the file name."""
    return re.sub(r"[^\w.+-]+", "_", f"{Path(recipe).name}-{size}")


_SCOPED = re.compile(r"(?P<recipe>[^=@]*?)(?:@(?P<size>[\d_]+))?:(?P<setting>[\w.-]+=.*)", re.S)


def _own_settings(
    given: Sequence[str], recipe: str, size: int, recipes: Sequence[str], sizes: Sequence[int]
) -> dict[str, Any]:
    """The settings that apply to one run, general ones first."""
    chosen: list[tuple[int, str]] = []
    for text in given:
        scoped = _SCOPED.fullmatch(text)
        whose, at, setting = (None, None, text) if scoped is None else scoped.groups()
        if whose and whose not in recipes:
            raise RecipeError(f"--set {text}: {whose} is not one of the recipes.")
        if at and int(at) not in sizes:
            raise RecipeError(f"--set {text}: {at} is not one of the sizes.")
        if whose in (None, "", recipe) and at in (None, str(size)):
            chosen.append((bool(whose) + bool(at), setting))
    return parse_settings([setting for _, setting in sorted(chosen, key=lambda pair: pair[0])])


def _variant(recipe: str, size: int, steps: int, own: dict[str, Any]) -> Variant:
    settings = {
        **own,
        "stages.0.data.limit": size,
        "stages.0.data.subset": "by-seed",
        "stages.0.train.max_steps": steps,
    }
    if read_recipe(recipe, settings=own).stages[0].select is not None:
        settings["stages.0.select.every"] = max(steps // 5, 1)
    return Variant(name=_name(recipe, size), recipe=recipe, settings=settings)


def _digest(folder: Path) -> str:
    found = json.loads((folder / "run" / "data.json").read_text())
    return str(next(iter(found.values()))["sha256"])


def _mean_sd(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{fmean(values):.2f}{spread}"
