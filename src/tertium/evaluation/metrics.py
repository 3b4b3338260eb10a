"""Correlations, with bootstrap intervals and tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Agreement",
    "Interval",
    "agreement",
    "bootstrap_accuracy",
    "bootstrap_counts",
    "bootstrap_pearson",
    "bootstrap_spearman",
    "cosines",
    "defined",
    "holm",
    "hundred",
    "interval",
    "mean_of_all",
    "paired_difference",
    "pearson",
    "percentile_interval",
    "ranks",
    "spearman",
    "two_sided_p",
]

Vector = NDArray[np.float64]
Interval = tuple[float, float]
_BLOCK = 2_000_000  # counts held at once while resampling


def cosines(first: ArrayLike, second: ArrayLike) -> Vector:
    """Cosine by row; as in SentEval, a zero vector gives 0 and NaN entries count as 0."""
    u, v = (np.nan_to_num(np.asarray(x, dtype=np.float64)) for x in (first, second))
    length = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    product = (u * v).sum(axis=1)
    return np.asarray(np.divide(product, length, out=np.zeros(len(u)), where=length > 0))


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's rank correlation with average ranks for ties; NaN if a side is constant.

    >>> round(spearman([1, 2, 3, 4], [10, 30, 20, 40]), 4)
    0.8
    """
    gold, predicted = _columns(gold, predicted)
    if np.isnan(gold).any() or np.isnan(predicted).any():
        return float("nan")
    return pearson(ranks(gold), ranks(predicted))


def pearson(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Pearson's correlation; NaN if a side is constant."""
    gold, predicted = _columns(gold, predicted)
    if _constant(gold) or _constant(predicted):
        return float("nan")
    u, v = gold - gold.mean(), predicted - predicted.mean()
    product = (u / np.linalg.norm(u)) @ (v / np.linalg.norm(v))
    return float(np.clip(product, -1.0, 1.0))


def ranks(values: ArrayLike) -> Vector:
    """Rank of each value, from 1; equal values share the mean of their ranks.

    >>> ranks([10, 30, 20, 30]).tolist()
    [1.0, 3.5, 2.0, 3.5]
    """
    values = np.asarray(values, dtype=float)
    found = _resampled_ranks(values, np.ones((1, len(values)), dtype=np.int32))[0] + 0.5
    return np.asarray(found)


def bootstrap_counts(n: int, *, resamples: int, seed: int) -> NDArray[np.int32]:
    """How often each of ``n`` rows occurs in each of ``resamples`` bootstrap samples."""
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(n, np.full(n, 1 / n), size=resamples)
    return np.asarray(draws, dtype=np.int32)


def bootstrap_spearman(gold: ArrayLike, predicted: ArrayLike, counts: NDArray[np.int32]) -> Vector:
    """Spearman's correlation in every bootstrap sample, without sorting the samples.

    A sample is given by how often each row occurs in it (``counts``, one row per sample): its ranks
    follow from running sums of the counts in the order of the full data. Models measured with the
    same counts are paired.
    """
    gold, predicted = _columns(gold, predicted)
    step = max(_BLOCK // len(gold), 1)
    blocks = [
        _weighted_pearson(_resampled_ranks(gold, block), _resampled_ranks(predicted, block), block)
        for block in (counts[at : at + step] for at in range(0, len(counts), step))
    ]
    return np.concatenate(blocks)


def bootstrap_pearson(gold: ArrayLike, predicted: ArrayLike, counts: NDArray[np.int32]) -> Vector:
    """Pearson's correlation in every bootstrap sample; see :func:`bootstrap_spearman`."""
    gold, predicted = _columns(gold, predicted)
    step = max(_BLOCK // len(gold), 1)
    blocks = (counts[at : at + step] for at in range(0, len(counts), step))
    return np.concatenate([_weighted_pearson(gold, predicted, block) for block in blocks])


def bootstrap_accuracy(correct: ArrayLike, *, resamples: int, seed: int) -> Vector:
    """Accuracy in bootstrap samples of right and wrong answers, drawn from a binomial."""
    correct = np.asarray(correct, dtype=float)
    generator = np.random.default_rng(seed)
    right = generator.binomial(len(correct), correct.mean(), size=resamples)
    return np.asarray(right / len(correct))


def percentile_interval(samples: Vector, *, level: float = 0.95) -> Interval | None:
    """The central ``level`` of the samples; None if none of them is defined."""
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def two_sided_p(differences: Vector) -> float:
    """Two-sided bootstrap p-value of "no difference", never below 2 / (samples + 1).

    Samples without a defined difference are ignored; NaN if none has one.
    """
    differences = differences[~np.isnan(differences)]
    if not len(differences):
        return float("nan")
    beyond = min((differences <= 0).sum(), (differences >= 0).sum())
    return float(min(1.0, 2 * (beyond + 1) / (len(differences) + 1)))


def defined(value: float) -> float | None:
    """The value itself; None for NaN, which JSON lacks."""
    return None if np.isnan(value) else float(value)


def hundred(value: float) -> float | None:
    """A correlation or accuracy times 100; None for NaN."""
    return defined(100.0 * value)


def interval(samples: Vector) -> list[float] | None:
    """The 95 % interval of bootstrap samples, times 100."""
    bounds = percentile_interval(samples)
    return None if bounds is None else [100 * bounds[0], 100 * bounds[1]]


def paired_difference(difference: float, samples: Vector) -> dict[str, Any]:
    """A difference of two models times 100, its interval, and the p-value of "no difference".

    Args:
        difference: difference of the two figures.
        samples: the same difference in bootstrap samples shared by both models.
    """
    return {
        "difference": hundred(difference),
        "interval": interval(samples),
        "p_value": defined(two_sided_p(samples)),
    }


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's method for multiple tests.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    found = [0.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        found[at] = highest
    return found


def mean_of_all(values: Sequence[float | None]) -> float | None:
    """The mean; None if any of the values is undefined."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


@dataclass(frozen=True)
class Agreement:
    """Agreement of scores with people's grades: times 100, None if undefined.

    Attributes:
        spearman: rank correlation.
        pearson: correlation.
        pairs: number of pairs.
        interval: 95 % interval of the rank correlation.
        leak_free: rank correlation on unseen pairs, with the numbers of ``pairs`` and ``removed``
            ones; None if the model's training data is unknown.
        samples: bootstrap samples, if there are any; not times 100.
    """

    spearman: float | None
    pearson: float | None
    pairs: int
    interval: list[float] | None = None
    leak_free: dict[str, Any] | None = None
    samples: Vector | None = None


def agreement(
    gold: Vector,
    predicted: Vector,
    *,
    counts: NDArray[np.int32] | None = None,
    seen: NDArray[np.bool_] | None = None,
) -> Agreement:
    """Compare scores with grades of the same pairs.

    Args:
        gold: people's grades.
        predicted: scores of a model.
        counts: bootstrap samples from :func:`bootstrap_counts`.
        seen: which pairs the model may have been trained on.
    """
    samples = None if counts is None else bootstrap_spearman(gold, predicted, counts)
    return Agreement(
        spearman=hundred(spearman(gold, predicted)),
        pearson=hundred(pearson(gold, predicted)),
        pairs=len(gold),
        interval=None if samples is None else interval(samples),
        leak_free=None
        if seen is None
        else {
            "spearman": hundred(spearman(gold[~seen], predicted[~seen])),
            "pairs": int((~seen).sum()),
            "removed": int(seen.sum()),
        },
        samples=samples,
    )


def _resampled_ranks(values: Vector, counts: NDArray[np.int32]) -> Vector:
    order = np.argsort(values, kind="stable")
    _, starts = np.unique(values[order], return_index=True)  # where each distinct value starts
    _, place = np.unique(values, return_inverse=True)  # which of them each row has
    group = np.add.reduceat(counts[:, order], starts, axis=1)
    rank = np.cumsum(group, axis=1) - group / 2
    return np.asarray(rank[:, place], dtype=float)


def _weighted_pearson(x: Vector, y: Vector, weights: NDArray[np.int32]) -> Vector:
    total = weights.sum(axis=1, keepdims=True)
    x = x - (x * weights).sum(axis=1, keepdims=True) / total
    y = y - (y * weights).sum(axis=1, keepdims=True) / total
    product = (weights * x * y).sum(axis=1)
    spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
    undefined = np.full(len(product), np.nan)
    return np.asarray(np.divide(product, spread, out=undefined, where=spread > 0))


def _columns(gold: ArrayLike, predicted: ArrayLike) -> tuple[Vector, Vector]:
    first, second = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"two columns of one length are needed, got {first.shape}, {second.shape}")
    return first, second


def _constant(values: Vector) -> bool:
    return len(values) < 2 or bool(np.all(values == values[0]))
