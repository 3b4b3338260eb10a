"""Scores against human grades: scatter plots, calibration, and results with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.drawing import COLOURS, blank_figure, panels, series_style, shortened
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Calibration",
    "CalibrationBin",
    "Estimate",
    "calibration",
    "calibration_figure",
    "gold_scatter",
    "interval_figure",
    "running_medians",
]

Estimate = tuple[float, Sequence[float] | None]  # a value, and perhaps its interval
_STEPS = 10
_FEWEST = 3  # minimum pairs for a median
_FEWEST_IN_BIN = 5  # minimum pairs for an interval


def running_medians(
    gold: ArrayLike, predicted: ArrayLike, *, steps: int = _STEPS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Medians of both columns in equal steps of the first; steps with few rows are skipped."""
    x, y = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    edges = np.linspace(x.min(), x.max(), steps + 1)
    step = np.clip(np.digitize(x, edges[1:-1]), 0, steps - 1)
    kept = [at for at in range(steps) if (step == at).sum() >= _FEWEST]
    medians = [(np.median(x[step == at]), np.median(y[step == at])) for at in kept]
    found = np.array(medians, dtype=float).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def gold_scatter(
    gold: ArrayLike,
    predicted: Mapping[str, ArrayLike],
    *,
    correlations: Mapping[str, float] | None = None,
    label: str = "cosine",
) -> "Figure":
    """Each pair's cosine against its human grade, one panel per model: miCSE, Figure 5.

    Args:
        gold: grades of the pairs.
        predicted: predictions for the same pairs, by model.
        correlations: correlations by model, for the titles.
        label: label of the predictions.
    """
    rows, columns = panels(len(predicted))
    figure = blank_figure(3.1 * columns + 0.6, 2.9 * rows + 0.3)
    grades = np.asarray(gold, dtype=float)
    first = None
    for place, (name, values) in enumerate(predicted.items(), 1):
        axes = figure.add_subplot(rows, columns, place, sharey=first)
        first = first or axes
        size = 14 if len(grades) <= 1000 else 6
        axes.scatter(
            grades, np.asarray(values), c=grades, cmap="viridis", s=size, alpha=0.55, linewidths=0
        )
        axes.plot(*running_medians(grades, values), color="black", lw=1.6, label="median")
        title = shortened(name)
        if correlations is not None:
            title += f"\nSpearman {100 * correlations[name]:.1f}"
        axes.set_title(title)
        axes.grid(alpha=0.25)
        if place == 1:
            axes.legend(frameon=False, loc="upper left")
    figure.supxlabel("human grade", fontsize=9)
    figure.supylabel(label, fontsize=9)
    return figure


@dataclass(frozen=True)
class CalibrationBin:
    """Pairs whose scores lie in one part of the scale.

    Attributes:
        low: lower end.
        high: upper end, which belongs to the next bin.
        pairs: number of scores in it.
        score: their mean; None without pairs.
        gold: mean human grade of the same pairs; None without pairs.
        interval: 95 % interval of that mean by the normal approximation; None for fewer than five
            pairs.
    """

    low: float
    high: float
    pairs: int
    score: float | None = None
    gold: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Calibration:
    """Agreement of scores with grades.

    Attributes:
        bins: equal parts of the scale.
        bias: mean score minus mean grade.
        error: mean absolute error.
        within_half: share of pairs whose score is at most half a point off.
    """

    bins: tuple[CalibrationBin, ...]
    bias: float
    error: float
    within_half: float


def calibration(
    gold: ArrayLike, predicted: ArrayLike, *, scale: tuple[float, float], bins: int = 10
) -> Calibration:
    """Compare scores with grades on one scale, bin by bin.

    Args:
        gold: human grades.
        predicted: scores of the same pairs.
        scale: lowest and highest score.
        bins: number of bins.
    """
    grades, scores = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    if not len(scores) or grades.shape != scores.shape:
        raise TertiumError(
            f"Calibration needs one grade per score: {len(grades)} grades, {len(scores)} scores."
        )
    edges = np.linspace(*scale, bins + 1)
    places = np.clip(np.digitize(scores, edges[1:-1]), 0, bins - 1)
    off = scores - grades
    return Calibration(
        bins=tuple(
            _bin(float(edges[at]), float(edges[at + 1]), grades[own], scores[own])
            for at in range(bins)
            for own in (places == at,)
        ),
        bias=float(off.mean()),
        error=float(np.abs(off).mean()),
        within_half=float((np.abs(off) <= 0.5).mean()),
    )


def _bin(low: float, high: float, grades: np.ndarray, scores: np.ndarray) -> CalibrationBin:
    count = len(scores)
    if not count:
        return CalibrationBin(low, high, 0)
    mean = float(grades.mean())
    interval = None
    if count >= _FEWEST_IN_BIN:
        half = 1.96 * float(grades.std(ddof=1)) / count**0.5
        interval = (mean - half, mean + half)
    return CalibrationBin(low, high, count, float(scores.mean()), mean, interval)


def calibration_figure(found: Mapping[str, Calibration]) -> "Figure":
    """Mean grade against mean score, bin by bin, with the number of pairs in each bin below."""
    _, columns = panels(len(found), columns=len(found))
    figure = blank_figure(3.2 * columns + 0.6, 4.5)
    grid = figure.add_gridspec(2, columns, height_ratios=(4.5, 1))
    for at, (name, measured) in enumerate(found.items()):
        low, high = measured.bins[0].low, measured.bins[-1].high
        axes = figure.add_subplot(grid[0, at])
        axes.plot([low, high], [low, high], color="0.5", lw=1, ls="--", label="score = grade")
        filled = [b for b in measured.bins if b.pairs]
        scores = np.array([b.score for b in filled], dtype=float)
        grades = np.array([b.gold for b in filled], dtype=float)
        axes.plot(scores, grades, color=COLOURS[0], marker="o", ms=5, label="mean of a bin")
        for entry in filled:
            if entry.interval is not None and entry.score is not None:
                axes.plot([entry.score] * 2, entry.interval, color=COLOURS[0], lw=1.2)
        axes.set(xlim=(low, high), ylim=(low, high))
        axes.set_title(f"{shortened(name)}\nmean error {measured.error:.2f}")
        axes.grid(alpha=0.25)
        axes.tick_params(labelbottom=False)
        counts = figure.add_subplot(grid[1, at], sharex=axes)
        width = measured.bins[0].high - low
        counts.bar(
            [b.low for b in measured.bins],
            [b.pairs for b in measured.bins],
            width=0.92 * width,
            align="edge",
            color="0.65",
        )
        counts.set_xlabel("model score")
        if at == 0:
            axes.set_ylabel("human grade")
            counts.set_ylabel("pairs")
            axes.legend(frameon=False, loc="upper left")
    return figure


def interval_figure(
    estimates: Mapping[str, Mapping[str, Estimate]], *, label: str = "Spearman x 100"
) -> "Figure":
    """One row per data set, with a point and its interval for each model.

    Args:
        estimates: results by data set and model.
        label: label of the axis.
    """
    names = list(dict.fromkeys(name for by_model in estimates.values() for name in by_model))
    figure = blank_figure(6.6, 0.9 + len(estimates) * (0.26 + 0.13 * len(names)))
    axes = figure.add_subplot()
    height = 0.7 / len(names)
    for at, name in enumerate(names):
        colour, marker = series_style(at)
        shown = False
        for row, by_model in enumerate(estimates.values()):
            if name not in by_model:
                continue
            value, interval = by_model[name]
            y = row + (at - (len(names) - 1) / 2) * height
            if interval is not None:
                axes.plot(interval, [y, y], color=colour, lw=1.6, solid_capstyle="butt")
            label_once = None if shown else shortened(name)
            axes.scatter([value], [y], color=colour, marker=marker, s=26, label=label_once)
            shown = True
    axes.set_yticks(range(len(estimates)), [shortened(name) for name in estimates])
    axes.set_ylim(len(estimates) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)
    axes.tick_params(axis="y", length=0)
    for row in range(1, len(estimates)):
        axes.axhline(row - 0.5, color="0.9", lw=0.8, zorder=0)
    figure.legend(frameon=False, loc="outside upper left", ncols=3)
    return figure
