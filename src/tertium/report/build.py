"""Builds a report: from models, data and runs to a folder with a page, figures and numbers."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tertium.drawing import plain_style
from tertium.errors import TertiumError, require
from tertium.evaluation.report import Provenance, current_command
from tertium.models import load
from tertium.progress import bar
from tertium.report.data import Material, collect
from tertium.report.grades import (
    calibration_section,
    conditions_section,
    contrast_section,
    gallery_section,
    scatter_section,
)
from tertium.report.internals import (
    attention_section,
    dropped_section,
    energy_section,
    plane_section,
    views_section,
)
from tertium.report.model_report import VIEWED_TEXTS, ModelReport, labels_of, report_on
from tertium.report.overview import broken_section, left_out_section, made_section, models_section
from tertium.report.page import (
    NUMBERS,
    PAGE,
    Broken,
    Drawn,
    LeftOut,
    Section,
    clear_figures,
    earlier_figures,
    write_report,
)
from tertium.report.results import AVERAGE, Figures, measure, results_section
from tertium.report.runs import runs_section

__all__ = ["SENTENCE", "BuiltReport", "build_report"]

SENTENCE = "The old ferry leaves the harbour at seven, and nobody waits for it."


@dataclass(frozen=True)
class BuiltReport:
    """A finished report.

    Attributes:
        page: the page.
        numbers: the contents of ``report.json``.
        broken: models that failed, entirely or in part.
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
    """Write a report on models, atomically.

    A model that cannot be loaded or measured is reported on the page; the others are included.

    Args:
        models: names, folders or hub ids.
        output: a folder that does not exist yet, is empty, or contains an earlier report.
        pairs: files of graded pairs; with a column ``condition``, of graded triples.
        scale: lowest and highest grade of these files (default: the range of their grades).
        texts: texts to measure attention on (default: the sentences of the first set).
        benchmarks: names of benchmark sets to measure on.
        folder: folder of the benchmark sets.
        runs: folders of training runs, sweeps and low-shot studies.
        sentence: the sentence for attention maps.
        limit: maximum number of pairs per set, sampled with the seed.
        resamples: number of bootstrap samples.
        seed: random seed for sampling.
        command: the command shown on the page (default: this process's command line).
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
    reports: list[ModelReport] = []
    with plain_style():
        total = 2 * len(models) + 1
        with bar(total=total, label="report", unit="part", show=progress) as shown:
            for name, label in zip(models, labels, strict=True):
                found = _looked_at(
                    name,
                    label,
                    material,
                    broken,
                    sentence=sentence,
                    folder=folder,
                    seed=seed,
                    progress=progress,
                    step=partial(shown.update, 1),
                )
                reports += [found] if found is not None else []
            if not reports:
                failed = "; ".join(f"{entry.model}: {entry.error}" for entry in broken)
                raise TertiumError(f"No model could be analysed, so there is no report. {failed}")
            broken += [entry for one in reports for entry in one.broken]
            figures = measure(reports, material.sets, resamples=resamples, seed=seed)
            sections, left_out = _contents(reports, material, figures, sentence)
            seconds = round(time.perf_counter() - start, 2)
            provenance = Provenance(command or current_command(), seed, seconds)
            drawing = {"matplotlib": version("matplotlib")}
            provenance = replace(provenance, versions={**provenance.versions, **drawing})
            drawn = [b for s in sections for b in s.blocks if isinstance(b, Drawn)]
            everything = [
                *filter(None, [broken_section(broken)]),
                *sections,
                *filter(None, [left_out_section(left_out)]),
                made_section(reports, material.sets, drawn, provenance, texts=material.texts_from),
            ]
            numbers = _numbers(reports, broken, material, sections, left_out, drawn, provenance)
            write_report(output, everything, drawn, numbers, labels=labels, broken=broken)
            clear_figures(output, stale - set(numbers["files"]))
            shown.update(1)
    return BuiltReport(output / PAGE, numbers, tuple(broken))


def _looked_at(
    name: str,
    label: str,
    material: Material,
    broken: list[Broken],
    *,
    step: Callable[[], Any],
    **options: Any,
) -> ModelReport | None:
    """Load and measure a model, and free its weights before the next one."""
    doing = "loading"
    try:
        model = load(name)
        doing = "measuring"
        return report_on(
            model,
            name=name,
            label=label,
            sets=material.sets,
            main=material.main,
            texts=material.texts,
            step=step,
            **options,
        )
    except Exception as error:  # reported on the page with the other models
        kind = "" if isinstance(error, TertiumError) else f"{type(error).__name__}: "
        broken.append(Broken(label, doing, f"{kind}{error}"))
        return None
    finally:
        gc.collect()


def _contents(
    reports: list[ModelReport],
    material: Material,
    figures: Figures,
    sentence: str,
) -> tuple[list[Section], list[LeftOut]]:
    """All sections that apply, and why the others are left out."""
    main, sets, count = material.main, material.sets, len(material.texts)
    scores = _scores(figures, [one.name for one in sets if one.conditions is None])
    made: list[tuple[Section | None, list[LeftOut]]] = [
        (models_section(reports, scores), []),
        results_section(figures, sets),
        scatter_section(reports, main),
        plane_section(reports, main, scores),
        calibration_section(reports, sets, main),
        (contrast_section(reports), []),
        (attention_section(reports, sentence, count), []),
        energy_section(reports, scores, count),
        (views_section(reports, min(count, VIEWED_TEXTS)), []),
        (dropped_section(reports, sentence), []),
        conditions_section(reports, sets),
        runs_section(material.runs),
        gallery_section(reports, main),
    ]
    left_out = [
        *material.left_out,
        *(entry for _, entries in made for entry in entries),
        *(entry for one in reports for entry in one.left_out),
    ]
    return [section for section, _ in made if section is not None], left_out


def _scores(figures: Figures, plain: Sequence[str]) -> dict[str, float]:
    """Each model's score: the average over sets without conditions, or the only one."""
    place = AVERAGE if AVERAGE in figures else next(iter(plain), None)
    found = {} if place is None else figures[place]
    return {name: entry.spearman for name, entry in found.items() if entry.spearman is not None}


def _numbers(
    reports: Sequence[ModelReport],
    broken: Sequence[Broken],
    material: Material,
    sections: Sequence[Section],
    left_out: Sequence[LeftOut],
    drawn: Sequence[Drawn],
    provenance: Provenance,
) -> dict[str, Any]:
    """The documented JSON shape (docs/json.md)."""
    figures = [f"figures/{entry.name}.{kind}" for entry in drawn for kind in ("png", "svg")]
    return {
        "page": PAGE,
        "files": [PAGE, NUMBERS, *figures],
        "models": [
            {
                "name": one.name,
                "label": one.label,
                "kind": one.facts.kind,
                "pooling": one.facts.pooling,
                "dimension": one.facts.dimension,
                "scale": list(one.facts.scale),
                "sha256": one.facts.sha256,
                "seconds": round(one.seconds, 2),
            }
            for one in reports
        ],
        "broken": [
            {"model": entry.model, "while": entry.while_doing, "error": entry.error}
            for entry in broken
        ],
        "sets": [one.to_json() for one in material.sets],
        "sections": {section.key: section.numbers for section in sections},
        "left_out": [
            {"section": entry.section, "model": entry.model, "reason": entry.reason}
            for entry in left_out
        ],
        "provenance": provenance.to_json(),
    }
