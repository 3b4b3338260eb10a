"""Figures of a ranking for yes and no, and thresholds with a guaranteed precision or recall."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, exp, lgamma, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.evaluation.metrics import Interval
from tertium.records.decision import Goal

__all__ = [
    "Counts",
    "Ranking",
    "average_precision",
    "binomial_tail",
    "clopper_pearson",
    "fewest_pairs",
]

Vector = NDArray[np.float64]
_GROWTH = 1.1  # growth of the numbers of accepted pairs that are tried


@dataclass(frozen=True)
class Counts:
    """Labelled pairs counted by a threshold; numbers may be weighted.

    Attributes:
        accepted: accepted pairs.
        right: positive pairs among them.
        positives: positive pairs.
        pairs: all pairs.
    """

    accepted: float
    right: float
    positives: float
    pairs: float

    @classmethod
    def of(cls, accepted: ArrayLike, positive: ArrayLike) -> "Counts":
        """Count decisions against labels."""
        said, is_so = np.asarray(accepted, bool), np.asarray(positive, bool)
        return cls(int(said.sum()), int((said & is_so).sum()), int(is_so.sum()), len(is_so))

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        total = self.accepted + self.positives
        return 2 * self.right / total if total else float("nan")


class Ranking:
    """Labelled pairs by descending score, with ties together.

    Args:
        positive: which pairs are positive.
        scores: scores of a model.
        groups: the group of each pair, if pairs are not independent (default: one per pair).
    """

    def __init__(
        self, positive: ArrayLike, scores: ArrayLike, groups: ArrayLike | None = None
    ) -> None:
        self._positive = np.asarray(positive, bool)
        scores = np.asarray(scores, np.float64)
        values, step = np.unique(-scores, return_inverse=True)
        self._step = step.reshape(-1)
        self._values = -values  # distinct scores, falling
        self._groups = np.arange(len(scores)) if groups is None else np.asarray(groups)

    def curves(self, counts: ArrayLike | None = None) -> tuple[Vector, Vector]:
        """Numbers of pairs and of positive pairs that reach each distinct score, highest first.

        Args:
            counts: how often each pair occurs, one row per sample (default: once each).
        """
        once = np.ones((1, len(self._step))) if counts is None else np.atleast_2d(counts)
        order = np.argsort(self._step, kind="stable")
        starts = np.flatnonzero(np.diff(self._step[order], prepend=-1))
        weighted = np.asarray(once, np.float64)[:, order]
        pairs = np.add.reduceat(weighted, starts, axis=1)
        right = np.add.reduceat(weighted * self._positive[order], starts, axis=1)
        return np.cumsum(pairs, axis=1), np.cumsum(right, axis=1)

    def average_precision(self, counts: ArrayLike | None = None) -> Vector:
        """Mean of the precisions at each positive pair, for each sample."""
        pairs, right = self.curves(counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            gained = np.diff(right, axis=1, prepend=0)
            precision = np.divide(right, pairs, out=np.zeros_like(right), where=pairs > 0)
            return np.asarray((gained * precision).sum(axis=1) / right[:, -1])

    def auc(self, counts: ArrayLike | None = None) -> Vector:
        """How often a positive pair scores above a negative one (ties count half), per sample."""
        pairs, right = self.curves(counts)
        wrong = pairs - right
        gained, before = np.diff(right, axis=1, prepend=0), wrong[:, -1:] - wrong
        tied = np.diff(wrong, axis=1, prepend=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            above = (gained * (before + tied / 2)).sum(axis=1)
            return np.asarray(above / (right[:, -1] * wrong[:, -1]))

    def best_f1(self, counts: ArrayLike | None = None) -> Vector:
        """The highest F1 of any threshold, for each sample."""
        pairs, right = self.curves(counts)
        return np.asarray((2 * right / (pairs + right[:, -1:])).max(axis=1))

    def counts(self, threshold: float) -> Counts:
        """The pairs counted by ``threshold``."""
        return Counts.of(self._values[self._step] >= threshold, self._positive)

    def threshold(
        self,
        goal: Goal,
        *,
        wanted: float | None = None,
        confidence: float = 0.9,
        counts: ArrayLike | None = None,
    ) -> float | None:
        """The threshold for a goal, between two scores; None if none can guarantee it.

        Precision: the lowest threshold whose precision, by the lower Clopper-Pearson bound at
        ``confidence``, is at least the required one; numbers of accepted pairs are tried in steps
        of a tenth, since each further test is another chance of luck. Recall: the highest threshold
        whose recall is, by the same bound. Pairs of a group count as the number of independent
        pairs with the same information.

        Args:
            goal: ``precision``, ``recall`` or ``f1`` (the best possible).
            wanted: the required precision or recall.
            confidence: probability with which it must hold.
            counts: how often each pair occurs (default: once each).
        """
        weights = np.ones(len(self._step)) if counts is None else np.asarray(counts, np.float64)
        pairs, right = (curve[0] for curve in self.curves(weights))
        if goal == "f1":
            f1 = 2 * right / (pairs + right[-1])
            return self._between(int(np.argmax(f1)))
        if wanted is None:
            raise ValueError(f"a threshold for {goal} needs a wanted one")
        if goal == "recall":
            kept = partial(
                self._kept, weights=weights, goal=goal, wanted=wanted, confidence=confidence
            )
            first = bisect_left(range(len(pairs)), x=1, key=lambda at: int(kept(at)))
            return None if first == len(pairs) else self._between(first)
        found = None
        least = float(fewest_pairs(wanted, confidence))
        for at, accepted in enumerate(pairs):
            if accepted >= least:
                least = max(least, float(accepted)) * _GROWTH
                # The bound is never above the share itself.
                if right[at] >= wanted * accepted and self._kept(
                    at, weights, goal, wanted, confidence
                ):
                    found = at
        return None if found is None else self._between(found)

    def _kept(self, at: int, weights: Vector, goal: Goal, wanted: float, confidence: float) -> bool:
        """Whether the required share is guaranteed at the score ``at`` from the top."""
        reached = self._step <= at
        asked, met = (reached, self._positive) if goal == "precision" else (self._positive, reached)
        trials, hits = effective(met[asked], weights[asked], self._groups[asked])
        return binomial_tail(hits, trials, wanted) <= 1 - confidence

    def _between(self, at: int) -> float:
        """Halfway to the next lower score, so that rounding does not matter."""
        here = float(self._values[at])
        below = float(self._values[at + 1]) if at + 1 < len(self._values) else here - 1e-6
        return (here + below) / 2


def effective(hits: NDArray[np.bool_], weights: Vector, groups: NDArray[np.int64]) -> Interval:
    """The equivalent numbers of independent trials and of hits among them.

    The variance of the share is that of sums over groups, if it exceeds that of independent trials.
    """
    trials, found = float(weights.sum()), float(weights[hits].sum())
    share = found / trials if trials else 0.0
    if not 0 < share < 1:
        return trials, found
    _, place = np.unique(groups, return_inverse=True)
    rest = np.bincount(place.reshape(-1), weights=weights * (hits - share))
    inflation = max(1.0, float((rest**2).sum()) / (trials * share * (1 - share)))
    return trials / inflation, found / inflation


def average_precision(positive: ArrayLike, scores: ArrayLike) -> float:
    """Average precision, as scikit-learn defines it.

    >>> round(average_precision([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    """
    return float(Ranking(positive, scores).average_precision()[0])


def fewest_pairs(wanted: float, confidence: float) -> int:
    """How many pairs must all be right to guarantee a share.

    >>> fewest_pairs(0.95, 0.9)
    45
    """
    return ceil(log(1 - confidence) / log(wanted))


def clopper_pearson(hits: float, trials: float, *, level: float = 0.95) -> Interval:
    """The two-sided Clopper-Pearson interval of a share.

    >>> low, high = clopper_pearson(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4439, 0.9748)
    """
    rest = (1 - level) / 2
    low = _solve(lambda p: binomial_tail(hits, trials, p), rest) if hits else 0.0
    high = _solve(lambda p: binomial_tail(hits + 1, trials, p), 1 - rest) if hits < trials else 1.0
    return low, high


def binomial_tail(hits: float, trials: float, chance: float) -> float:
    """The probability of at least this many hits; numbers need not be whole.

    This is the regularised incomplete beta function, computed by its continued fraction.

    >>> round(binomial_tail(2, 3, 0.5), 6)
    0.5
    """
    if hits <= 0:
        return 1.0
    if hits > trials:
        return 0.0
    a, b = hits, trials - hits + 1
    if not 0 < chance < 1:
        return float(chance >= 1)
    front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(chance) + b * log(1 - chance)
    if chance < (a + 1) / (a + b + 2):
        return min(1.0, exp(front) * _fraction(a, b, chance) / a)
    return max(0.0, 1 - exp(front) * _fraction(b, a, 1 - chance) / b)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 + step * d
            c = 1 + step / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _solve(rising: Callable[[float], float], target: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < target:
            low = middle
        else:
            high = middle
    return (low + high) / 2
