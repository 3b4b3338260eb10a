"""Semantic textual similarity in the "all" setting: one correlation over a year's pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.data import benchmarks
from tertium.data.overlap import pair_key
from tertium.evaluation.context import Context, Memory
from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_spearman,
    cosines,
    pearson,
    spearman,
)
from tertium.evaluation.tasks.base import Outcome, against_baseline, hundred, interval, leak_free

__all__ = ["StsTask", "subset_correlations"]

_PROTOCOL = "Spearman of cosine and gold over all pairs together (SentEval 'all')"


def subset_correlations(
    subsets: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> dict[str, Any]:
    """Correlations per subset and their three summaries, from ``{subset: (gold, predicted)}``.

    ``all`` takes one correlation over the concatenation (what the papers report), ``mean``
    averages the subsets, ``wmean`` weighs them by size.
    """
    measures = {"spearman": spearman, "pearson": pearson}
    sizes = [len(np.asarray(gold)) for gold, _ in subsets.values()]
    gold = np.concatenate([np.asarray(gold) for gold, _ in subsets.values()])
    predicted = np.concatenate([np.asarray(predicted) for _, predicted in subsets.values()])
    each = {
        name: {key: measure(*columns) for key, measure in measures.items()}
        for name, columns in subsets.items()
    }
    return {
        "all": {key: measure(gold, predicted) for key, measure in measures.items()},
        "mean": {key: float(np.mean([s[key] for s in each.values()])) for key in measures},
        "wmean": {
            key: float(np.average([s[key] for s in each.values()], weights=sizes))
            for key in measures
        },
        "subsets": {
            name: {**values, "pairs": size}
            for (name, values), size in zip(each.items(), sizes, strict=True)
        },
    }


@dataclass(frozen=True)
class StsTask:
    """One of the seven STS tasks."""

    name: str
    headline: str = "spearman"

    def run(self, context: Context) -> Outcome:
        """Score all pairs of the test split."""
        data = benchmarks.load(self.name, split="test", folder=context.folder, text=context.text)
        first = [row.sentence1 for row in data.rows]
        second = [row.sentence2 for row in data.rows]
        gold = np.array([row.score for row in data.rows])
        predicted = _predict(context.memory, first, second)
        values = _values([row.subset for row in data.rows], gold, predicted)
        samples = differences = None
        if context.resamples:
            counts = bootstrap_counts(len(gold), resamples=context.resamples, seed=context.seed)
            samples = bootstrap_spearman(gold, predicted, counts)
            values["interval"] = interval(samples)
            if context.baseline is not None:
                other = _predict(context.baseline, first, second)
                name = context.baseline.model.name
                values["baseline"], differences = against_baseline(
                    name, gold, predicted, other, samples, counts
                )
        if context.excluded is not None:
            keys = (pair_key(a, b) for a, b in zip(first, second, strict=True))
            kept = np.array([key not in context.excluded for key in keys])
            values["leak_free"] = leak_free(gold, predicted, kept)
        return Outcome(values, _PROTOCOL, data, samples, differences)


def _predict(memory: Memory, first: list[str], second: list[str]) -> NDArray[np.float64]:
    both = memory.embed([*first, *second])
    return cosines(both[: len(first)], both[len(first) :])


def _values(
    subsets: list[str], gold: NDArray[np.float64], predicted: NDArray[np.float64]
) -> dict[str, Any]:
    names = np.array(subsets)
    groups = {name: names == name for name in dict.fromkeys(subsets)}
    found = subset_correlations({n: (gold[rows], predicted[rows]) for n, rows in groups.items()})
    values: dict[str, Any] = {k: hundred(v) for k, v in found["all"].items()}
    values |= {"pairs": len(gold), "interval": None}
    if len(groups) > 1:
        for summary in ("mean", "wmean"):
            values[summary] = {key: hundred(value) for key, value in found[summary].items()}
        values["subsets"] = {
            name: {k: v if k == "pairs" else hundred(v) for k, v in entry.items()}
            for name, entry in found["subsets"].items()
        }
    return values
