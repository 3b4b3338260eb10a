"""Runs tasks on a model and collects their figures."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tertium.data.benchmarks import TextForm, check_text
from tertium.errors import TertiumError, unknown_name
from tertium.evaluation.leaks import find_excluded
from tertium.evaluation.metrics import interval, mean_of_all
from tertium.evaluation.report import (
    Provenance,
    Report,
    SuiteResult,
    TaskResult,
    current_command,
)
from tertium.evaluation.tasks import TASKS, Outcome
from tertium.evaluation.tasks.base import Context, EmbeddingCache, against_baseline
from tertium.models.base import Model

__all__ = ["run"]


def run(
    model: Model,
    suites: Mapping[str, Sequence[str]],
    *,
    folder: Path | None = None,
    text: TextForm = "senteval",
    resamples: int = 1000,
    seed: int = 0,
    exclude: Iterable[str] = (),
    baseline: Model | None = None,
    command: str | None = None,
    mteb: Iterable[tuple[str, Sequence[str], str | None]] = (),
    precision: Literal["float32", "bf16"] = "float32",
    progress: bool | None = None,
) -> Report:
    """Evaluate ``model`` on named tasks; a text shared by several tasks is encoded once.

    Args:
        model: any model with embeddings, or for ``csts`` one that scores triples.
        suites: task names by suite.
        folder: benchmark folder; without one, the data comes from the hub.
        text: ``senteval`` or ``raw``.
        resamples: bootstrap samples; 0 for no intervals.
        seed: random seed for bootstrap and folds.
        exclude: files (``FILE`` or ``FILE:SPLIT``) whose pairs the leak-free figures exclude, as
            they do the pairs of the sets on the model's own card (``training_data``).
        baseline: a model to compare with by a paired bootstrap.
        command: command for the provenance (default: this process's command line).
        mteb: suites of MTEB tasks: name, tasks, and metric (None for each task's main one); they
            follow MTEB's own protocol, see ``tertium.evaluation.mteb``.
        precision: ``bf16`` computes in bfloat16 if torch runs the model: faster on some processors,
            with figures that differ by a few hundredths. The provenance states it.
        progress: False for no progress on standard error.
    """
    start = time.perf_counter()
    check_text(text)
    _check_suites(suites)
    if resamples < 0 or (baseline is not None and not resamples):
        least = "0" if baseline is None else "1, for a baseline is tested by bootstrap"
        raise TertiumError(f"resamples is {resamples}; it must be at least {least}.")
    excluded, keys = find_excluded(exclude, model.training_data, folder=folder)
    context = Context(
        cache=EmbeddingCache(model, progress=progress),
        folder=folder,
        text=text,
        resamples=resamples,
        seed=seed,
        excluded=keys if excluded else None,
        baseline=None if baseline is None else EmbeddingCache(baseline, progress=progress),
    )
    with _computing_in(precision, model):
        results = [_run_suite(suite, names, context) for suite, names in suites.items()]
        for suite, names, metric in mteb:
            from tertium.evaluation.mteb import mteb_suite

            embedder = context.cache.embedder
            results.append(mteb_suite(suite, embedder, names, metric=metric, folder=folder))
    seconds = round(time.perf_counter() - start, 2)
    provenance = Provenance(
        command or current_command(), seed, seconds, excluded, precision=precision
    )
    return Report(model.name, tuple(results), provenance)


def _computing_in(precision: str, model: Model) -> AbstractContextManager[Any]:
    """The context in which torch computes in this precision."""
    if precision not in ("float32", "bf16"):
        raise unknown_name("precision", precision, ("float32", "bf16"))
    if precision == "float32":
        return nullcontext()
    if any(part.engine is not None or part.needs_engine for part in model.parts):
        raise TertiumError("bf16 is for models that torch runs: say engine torch, or float32.")
    if not model.encoders:
        raise TertiumError(f"{model.name} is not made of encoders: evaluate it in float32.")
    import torch

    from tertium.models.bfloat16 import check_bfloat16

    kind = model.encoders[0].device_kind
    if kind == "cpu":
        check_bfloat16(remedy="evaluate with precision float32")
    return torch.autocast(kind, dtype=torch.bfloat16)


def _check_suites(suites: Mapping[str, Sequence[str]]) -> None:
    for suite, names in suites.items():
        for name in names:
            if name not in TASKS:
                raise unknown_name("task", name, TASKS)
        headlines = {TASKS[name].headline for name in names}
        if len(headlines) != 1:
            raise TertiumError(
                f"Suite '{suite}' must hold tasks of one headline figure, "
                f"not {', '.join(sorted(headlines)) or 'none'}. Make it several suites."
            )


def _run_suite(suite: str, names: Sequence[str], context: Context) -> SuiteResult:
    outcomes: list[Outcome] = []
    results: list[TaskResult] = []
    for name in names:
        start = time.perf_counter()
        outcome = TASKS[name].run(context)
        data = outcome.data
        outcomes.append(outcome)
        results.append(
            TaskResult(
                task=name,
                values=outcome.values,
                protocol=outcome.protocol,
                split=data.split,
                pooling=context.pooling,
                data={
                    "name": data.name,
                    "text": data.text,
                    "source": data.source,
                    "sha256": data.sha256,
                    "revision": data.revision,
                },
                seconds=time.perf_counter() - start,
            )
        )
    headline = TASKS[names[0]].headline
    averaged = headline in ("spearman", "accuracy")
    average = _average(headline, outcomes, context) if averaged else None
    return SuiteResult(suite, headline, tuple(results), average)


def _average(headline: str, outcomes: list[Outcome], context: Context) -> dict[str, Any]:
    """The mean of the tasks' headline figures, with its interval."""
    values = [outcome.values for outcome in outcomes]
    average: dict[str, Any] = {"average": mean_of_all([v[headline] for v in values])}
    samples = [outcome.samples for outcome in outcomes if outcome.samples is not None]
    if samples:
        average["interval"] = interval(np.mean(samples, axis=0))
    if any("leak_free" in v for v in values):
        clean = [v["leak_free"] for v in values]
        average["leak_free"] = {
            headline: mean_of_all([c[headline] for c in clean]),
            "pairs": sum(c["pairs"] for c in clean),
        }
    differences = [outcome.differences for outcome in outcomes if outcome.differences is not None]
    if differences and context.baseline is not None:
        other = mean_of_all([v["baseline"]["value"] for v in values])
        if other is not None and average["average"] is not None:
            average["baseline"] = against_baseline(
                context.baseline,
                other / 100,
                (average["average"] - other) / 100,
                np.mean(differences, axis=0),
            )
    return average
