"""Correlations with intervals, and every two models compared on the same resamples."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.overlap import pair_key
from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_spearman,
    pearson,
    spearman,
    two_sided_p,
)
from tertium.evaluation.tasks.base import defined, hundred, interval
from tertium.evaluation.tasks.csts import clustered_counts
from tertium.report.sets import GradedSet
from tertium.report.study import Reading, Study

__all__ = ["AVERAGE", "Figures", "adjusted", "differences", "measure"]

AVERAGE = "average"  # over all sets without conditions


@dataclass(frozen=True)
class Figures:
    """One reading on one set, or on all: times 100, None where undefined.

    Attributes:
        reading: its name.
        place: the set, or ``average``.
        spearman: rank correlation with the grades.
        pearson: correlation with the grades; None for the average.
        interval: 95 % of the bootstrap samples.
        pairs: how many.
        clean: rank correlation without the pairs that the model's card lists, if it lists any.
        seen: how many pairs those are.
        samples: of the bootstrap.
    """

    reading: str
    place: str
    spearman: float | None
    pearson: float | None
    interval: list[float] | None
    pairs: int
    clean: float | None
    seen: int | None
    samples: NDArray[np.float64]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "spearman": self.spearman,
            "pearson": self.pearson,
            "interval": self.interval,
            "pairs": self.pairs,
            "leak_free": None if self.seen is None else {"spearman": self.clean, "seen": self.seen},
        }


def measure(
    studies: Sequence[Study], sets: Sequence[GradedSet], *, resamples: int, seed: int
) -> dict[str, list[Figures]]:
    """Figures by set, each with one entry per reading; ``average`` is over sets without conditions.

    All readings see the same resamples of a set, so that their differences are paired.
    """
    found: dict[str, list[Figures]] = {}
    for one in sets:
        counts = _counts(one, resamples=resamples, seed=seed)
        found[one.name] = [
            _figures(reading, one, study.seen.get(one.name), counts)
            for study in studies
            for reading in study.readings
            if one.name in reading.values
        ]
    plain = [one.name for one in sets if one.conditions is None]
    if len(plain) > 1:
        by_reading = list(zip(*(found[name] for name in plain), strict=True))
        found = {AVERAGE: [_average(entries) for entries in by_reading], **found}
    return found


def adjusted(values: Sequence[float]) -> list[float]:
    """Holm's p-values: several questions are asked at once.

    >>> adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=lambda at: values[at])
    found = [0.0] * len(values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[at]))
        found[at] = highest
    return found


def _counts(one: GradedSet, *, resamples: int, seed: int) -> NDArray[np.int32]:
    if one.conditions is None:
        return bootstrap_counts(len(one.gold), resamples=resamples, seed=seed)
    groups = [pair_key(a, b) for a, b in one.pairs]
    return clustered_counts(groups, resamples=resamples, seed=seed)[0]


def _figures(
    reading: Reading,
    one: GradedSet,
    seen: NDArray[np.bool_] | None,
    counts: NDArray[np.int32],
) -> Figures:
    values = reading.values[one.name]
    samples = bootstrap_spearman(one.gold, values, counts)
    return Figures(
        reading=reading.name,
        place=one.name,
        spearman=hundred(spearman(one.gold, values)),
        pearson=hundred(pearson(one.gold, values)),
        interval=interval(samples),
        pairs=len(values),
        clean=None if seen is None else hundred(spearman(one.gold[~seen], values[~seen])),
        seen=None if seen is None else int(seen.sum()),
        samples=samples,
    )


def _average(entries: Sequence[Figures]) -> Figures:
    samples = np.mean([entry.samples for entry in entries], axis=0)
    cards = [entry.seen for entry in entries if entry.seen is not None]
    return Figures(
        reading=entries[0].reading,
        place=AVERAGE,
        spearman=_mean([entry.spearman for entry in entries]),
        pearson=None,
        interval=interval(samples),
        pairs=sum(entry.pairs for entry in entries),
        clean=_mean([entry.clean for entry in entries]) if cards else None,
        seen=sum(cards) if cards else None,
        samples=samples,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def differences(entries: Sequence[Figures]) -> list[dict[str, Any]]:
    """Every two readings with a figure, on the same resamples; p by Holm over the pairs."""
    couples = [
        (one, two)
        for one, two in itertools.combinations(entries, 2)
        if one.spearman is not None and two.spearman is not None
    ]
    raw = [two_sided_p(one.samples - two.samples) for one, two in couples]
    known = [1.0 if np.isnan(p) else p for p in raw]
    return [
        {
            "models": [one.reading, two.reading],
            "difference": (one.spearman or 0.0) - (two.spearman or 0.0),
            "interval": interval(one.samples - two.samples),
            "p_value": defined(p),
            "p_holm": holm,
        }
        for (one, two), p, holm in zip(couples, raw, adjusted(known), strict=True)
    ]
