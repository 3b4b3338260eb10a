"""Conditional similarity: C-STS, whose every sentence pair stands there under two conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.overlap import pair_key
from tertium.data.rows import ConditionalPair
from tertium.errors import TertiumError
from tertium.evaluation.conditions import condition_sensitivity, condition_type
from tertium.evaluation.context import Context
from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_pearson,
    bootstrap_spearman,
    pearson,
    spearman,
)
from tertium.evaluation.tasks.base import (
    Outcome,
    against_baseline,
    defined,
    hundred,
    interval,
    leak_free,
)

__all__ = ["CstsTask", "clustered_counts"]

_PROTOCOL = (
    "Spearman of score and label over all triples; intervals by resampling sentence pairs with all "
    "their conditions"
)


def clustered_counts(
    groups: Sequence[Any], *, resamples: int, seed: int
) -> tuple[NDArray[np.int32], int]:
    """How often each row occurs in each bootstrap sample of whole groups, and how many there are.

    Rows of one group, the same sentences under other conditions, are drawn together: they are not
    independent, and intervals that took them to be would be too narrow.
    """
    places: dict[Any, int] = {}
    of_row = np.array([places.setdefault(group, len(places)) for group in groups])
    counts = bootstrap_counts(len(places), resamples=resamples, seed=seed)
    return counts[:, of_row], len(places)


@dataclass(frozen=True)
class CstsTask:
    """The validation part of C-STS, whose test labels are hidden."""

    name: str
    headline: str = "spearman"
    split: str = "validation"

    def run(self, context: Context) -> Outcome:
        """Score all triples; a model without conditions gives the sentences' cosine."""
        data = benchmarks.load(self.name, split=self.split, folder=context.folder)
        rows: tuple[ConditionalPair, ...] = data.rows
        triples = [(row.sentence1, row.sentence2, row.condition) for row in rows]
        gold = _labels(rows, self.split)
        predicted = context.memory.similarities(triples)
        groups = [pair_key(first, second) for first, second, _ in triples]
        values = _values(rows, gold, predicted, groups)
        samples = differences = None
        if context.resamples:
            counts, _ = clustered_counts(groups, resamples=context.resamples, seed=context.seed)
            samples = bootstrap_spearman(gold, predicted, counts)
            values["interval"] = interval(samples)
            values["pearson_interval"] = interval(bootstrap_pearson(gold, predicted, counts))
            if context.baseline is not None:
                other = context.baseline.similarities(triples)
                name = context.baseline.model.name
                values["baseline"], differences = against_baseline(
                    name, gold, predicted, other, samples, counts
                )
        if context.excluded is not None:
            kept = np.array([group not in context.excluded for group in groups])
            values["leak_free"] = leak_free(gold, predicted, kept)
        return Outcome(values, _PROTOCOL, data, samples, differences)


def _labels(rows: Sequence[ConditionalPair], split: str) -> NDArray[np.float64]:
    labels = [row.label for row in rows if row.label is not None]
    if len(labels) < len(rows):
        raise TertiumError(f"The {split} part of C-STS has rows without labels: nothing to score.")
    return np.array(labels)


def _values(
    rows: Sequence[ConditionalPair],
    gold: NDArray[np.float64],
    predicted: NDArray[np.float64],
    groups: Sequence[Any],
) -> dict[str, Any]:
    moved = condition_sensitivity(gold, predicted, groups)
    types = np.array([condition_type(row.condition) for row in rows])
    names, sizes = np.unique(types, return_counts=True)
    return {
        "spearman": hundred(spearman(gold, predicted)),
        "pearson": hundred(pearson(gold, predicted)),
        "pairs": len(gold),
        "sentence_pairs": len(set(groups)),
        "interval": None,
        "pearson_interval": None,
        "sensitivity": {
            "movement": defined(moved.movement),
            "agreement": hundred(moved.agreement),
            "direction": hundred(moved.direction),
            "pairs": moved.pairs,
        },
        "types": {
            str(names[at]): {
                "spearman": hundred(spearman(gold[own], predicted[own])),
                "pearson": hundred(pearson(gold[own], predicted[own])),
                "pairs": int(sizes[at]),
            }
            for at in np.argsort(-sizes, kind="stable")
            if (own := types == names[at]).any()
        },
    }
