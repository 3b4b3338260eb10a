"""Models, data and runs to a folder with one page, its figures and its numbers."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tertium.drawing import plain_style
from tertium.errors import TertiumError, require
from tertium.evaluation.provenance import Provenance, current_command
from tertium.models import load
from tertium.progress import bar
from tertium.report.contents import contents
from tertium.report.folder import (
    PAGE,
    clear_figures,
    earlier_figures,
    report_numbers,
    write_report,
)
from tertium.report.material import Material, collect
from tertium.report.models import labels_of
from tertium.report.overview import (
    broken_section,
    left_out_section,
    made_section,
)
from tertium.report.parts import Broken, Drawn
from tertium.report.results import measure
from tertium.report.study import Study, study

__all__ = ["SENTENCE", "BuiltReport", "build_report"]

SENTENCE = "The old ferry leaves the harbour at seven, and nobody waits for it."


@dataclass(frozen=True)
class BuiltReport:
    """A report that is there.

    Attributes:
        page: the file to open.
        numbers: the document of ``report.json``.
        broken: models that failed, wholly or in part.
    """

    page: Path
    numbers: dict[str, Any]
    broken: tuple[Broken, ...]


def build_report(
    models: Sequence[str],
    output: Path,
    *,
    pairs: Sequence[Path] = (),
    scale: tuple[float, float] | None = None,
    texts: Path | None = None,
    benchmarks: Sequence[str] = (),
    folder: Path | None = None,
    runs: Sequence[Path] = (),
    sentence: str = SENTENCE,
    limit: int = 5000,
    resamples: int = 1000,
    seed: int = 0,
    command: str | None = None,
    progress: bool | None = None,
) -> BuiltReport:
    """Write a page about models; it appears whole, or not at all.

    A model that cannot be loaded or measured is told on the page, and the others are still there.

    Args:
        models: names, folders or hub ids.
        output: a folder that does not exist yet, is empty, or holds an earlier report.
        pairs: files of graded pairs; with a column ``condition``, of graded triples.
        scale: lowest and highest grade of these files (default: what their grades span).
        texts: to look at attention on (default: the sentences of the first set).
        benchmarks: names of benchmark sets to measure on.
        folder: where they are.
        runs: folders of training runs, sweeps and low-shot studies.
        sentence: whose attention maps are drawn.
        limit: at most so many pairs of a set, drawn by the seed.
        resamples: bootstrap samples.
        seed: of all that is drawn.
        command: what the page says made it (default: this process's command line).
        progress: False for no progress on standard error.
    """
    start = time.perf_counter()
    require("report", purpose="A report", packages=("jinja2", "matplotlib"))
    labels = labels_of(models)
    stale = earlier_figures(output)
    material = collect(
        models,
        pairs=pairs,
        texts=texts,
        benchmarks=benchmarks,
        folder=folder,
        runs=runs,
        limit=limit,
        seed=seed,
        scale=scale,
    )
    broken: list[Broken] = []
    studies: list[Study] = []
    with plain_style():
        total = 2 * len(models) + 1
        with bar(total=total, label="report", unit="part", show=progress) as shown:

            def step(_: str) -> None:
                shown.update(1)

            for name, label in zip(models, labels, strict=True):
                found = _studied(
                    name,
                    label,
                    material,
                    broken,
                    sentence=sentence,
                    folder=folder,
                    seed=seed,
                    progress=progress,
                    step=step,
                )
                studies += [found] if found is not None else []
            if not studies:
                told = "; ".join(f"{entry.model}: {entry.error}" for entry in broken)
                raise TertiumError(f"No model could be looked at, so there is no report. {told}")
            broken += [entry for one in studies for entry in one.broken]
            figures = measure(studies, material.sets, resamples=resamples, seed=seed)
            sections, left_out = contents(studies, material, figures, sentence)
            seconds = round(time.perf_counter() - start, 2)
            provenance = Provenance(command or current_command(), seed, seconds)
            drawing = {"matplotlib": version("matplotlib")}
            provenance = replace(provenance, versions={**provenance.versions, **drawing})
            drawn = [b for s in sections for b in s.blocks if isinstance(b, Drawn)]
            everything = [
                *filter(None, [broken_section(broken)]),
                *sections,
                *filter(None, [left_out_section(left_out)]),
                made_section(studies, material.sets, drawn, provenance, texts=material.texts_from),
            ]
            numbers = report_numbers(
                studies, broken, material, sections, left_out, drawn, provenance
            )
            write_report(output, everything, drawn, numbers, labels=labels, broken=broken)
            clear_figures(output, stale - set(numbers["files"]))
            shown.update(1)
    return BuiltReport(output / PAGE, numbers, tuple(broken))


def _studied(
    name: str,
    label: str,
    material: Material,
    broken: list[Broken],
    *,
    step: Callable[[str], None],
    **options: Any,
) -> Study | None:
    """Load, measure, look, and let go of the weights before the next model comes."""
    doing = "loading"
    try:
        model = load(name)
        doing = "measuring"
        return study(
            model,
            name=name,
            label=label,
            sets=material.sets,
            main=material.main,
            texts=material.texts,
            step=step,
            **options,
        )
    except Exception as error:  # told on the page; the other models are still worth a report
        kind = "" if isinstance(error, TertiumError) else f"{type(error).__name__}: "
        broken.append(Broken(label, doing, f"{kind}{error}"))
        return None
    finally:
        gc.collect()
