"""Monotone maps from scores to probabilities or grades, selected on held-out pairs."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.records.decision import Calibration

__all__ = [
    "calibrate",
    "fit_isotonic",
    "fit_linear",
    "fit_platt",
    "isotonic",
    "log_loss",
    "squared_error",
]

Vector = NDArray[np.float64]
Fit = Callable[[Vector, Vector, float, float], Calibration]
_STEPS = 100  # maximum steps of Newton's method, which needs about ten


def isotonic(values: ArrayLike, weights: ArrayLike | None = None) -> Vector:
    """The nearest non-decreasing values by least squares: pool adjacent violators.

    >>> isotonic([1, 3, 2, 4]).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    y = np.asarray(values, np.float64)
    w = np.ones_like(y) if weights is None else np.asarray(weights, np.float64)
    means, sums, sizes = list[float](), list[float](), list[int]()
    for value, weight in zip(y.tolist(), w.tolist(), strict=True):
        means.append(value)
        sums.append(weight)
        sizes.append(1)
        while len(means) > 1 and means[-2] >= means[-1]:
            last, heavy, size = means.pop(), sums.pop(), sizes.pop()
            total = sums[-1] + heavy
            means[-1] = (means[-1] * sums[-1] + last * heavy) / total
            sums[-1] = total
            sizes[-1] += size
    return np.repeat(means, sizes)


def fit_isotonic(scores: Vector, labels: Vector, low: float, high: float) -> Calibration:
    """Isotonic regression, linear between scores and constant beyond them."""
    distinct, place = np.unique(scores, return_inverse=True)
    weights = np.bincount(place)
    means = np.bincount(place, weights=labels) / weights
    fitted = np.maximum.accumulate(isotonic(means, weights).clip(low, high))
    # The ends of each level define the function.
    before, after = np.diff(fitted, prepend=np.nan), np.diff(fitted, append=np.nan)
    ends = (before != 0) | (after != 0)
    return Calibration(
        method="isotonic",
        low=low,
        high=high,
        scores=tuple(distinct[ends].tolist()),
        values=tuple(fitted[ends].tolist()),
    )


def fit_platt(scores: Vector, labels: Vector, low: float, high: float) -> Calibration:
    """Platt's logistic regression, with his targets slightly inside 0 and 1."""
    positives, pairs = float(labels.sum()), len(labels)
    top, bottom = (positives + 1) / (positives + 2), 1 / (pairs - positives + 2)
    targets = bottom + (top - bottom) * labels
    middle, spread = float(scores.mean()), float(scores.std()) or 1.0
    x = (scores - middle) / spread
    slope, offset = 0.0, float(np.log(targets.mean() / (1 - targets.mean())))
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(slope * x + offset, -500, 500)))
        weight = np.maximum(p * (1 - p), 1e-12)
        gradient = np.array([(x * (p - targets)).sum(), (p - targets).sum()])
        curvature = np.array(
            [
                [(weight * x * x).sum() + 1e-9, (weight * x).sum()],
                [(weight * x).sum(), weight.sum() + 1e-9],
            ]
        )
        step = np.linalg.solve(curvature, gradient)
        step /= max(1.0, float(np.abs(step).max()) / 4)  # limit steps to where the fit is local
        slope, offset = slope - float(step[0]), offset - float(step[1])
        if float(np.abs(step).max()) < 1e-10:
            break
    if slope <= 0:  # scores fall as labels rise, so the best monotone fit is constant
        slope, offset = 0.0, float(np.log(targets.mean() / (1 - targets.mean())))
    return Calibration(
        method="platt",
        low=low,
        high=high,
        slope=slope / spread,
        offset=offset - slope * middle / spread,
    )


def fit_linear(scores: Vector, labels: Vector, low: float, high: float) -> Calibration:
    """Linear regression, with a slope of at least 0."""
    middle, mean = float(scores.mean()), float(labels.mean())
    spread = float(((scores - middle) ** 2).sum())
    slope = float(((scores - middle) * (labels - mean)).sum()) / spread if spread else 0.0
    slope = max(slope, 0.0)
    return Calibration(
        method="linear", low=low, high=high, slope=slope, offset=mean - slope * middle
    )


def log_loss(labels: Vector, probabilities: Vector) -> float:
    """Mean negative logarithm of the probability of the label."""
    p = np.clip(probabilities, 1e-12, 1 - 1e-12)
    return float(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)))


def squared_error(labels: Vector, grades: Vector) -> float:
    """Mean squared error."""
    return float(np.mean((labels - grades) ** 2))


def calibrate(
    scores: Vector, labels: Vector, folds: NDArray[np.int64], *, scale: tuple[float, float] | None
) -> tuple[Calibration, dict[str, float], Vector]:
    """The calibration with the smallest loss on held-out pairs, fitted on all pairs.

    Args:
        scores: scores of a model.
        labels: 0 and 1, or grades.
        folds: the fold of each pair.
        scale: scale of the grades; None for probabilities, which stay half a pair away from 0 and
            1.

    Returns:
        The calibration, the losses of all methods, and the method's values for held-out pairs.
    """
    low, high = _ends(len(labels)) if scale is None else scale
    methods: dict[str, Fit] = {"isotonic": fit_isotonic}
    methods |= {"platt": fit_platt} if scale is None else {"linear": fit_linear}
    loss = log_loss if scale is None else squared_error
    found = {name: np.empty(len(labels)) for name in methods}
    for fold in np.unique(folds):
        held = folds == fold
        rest = ~held if (~held).any() else held  # a single fold is measured on itself
        for name, fit in methods.items():
            found[name][held] = fit(scores[rest], labels[rest], low, high)(scores[held])
    losses = {name: loss(labels, values) for name, values in found.items()}
    best = min(losses, key=lambda name: (losses[name], name == "isotonic"))
    return methods[best](scores, labels, low, high), losses, found[best]


def _ends(pairs: int) -> tuple[float, float]:
    return 0.5 / (pairs + 1), 1 - 0.5 / (pairs + 1)
