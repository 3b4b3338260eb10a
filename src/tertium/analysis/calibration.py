"""Whether a score of 3 means what people call a 3."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tertium.drawing import COLOURS, blank_figure, panels, shortened
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Calibration", "CalibrationBin", "calibration", "calibration_figure"]

_FEWEST = 5  # pairs of a bin that has an interval


@dataclass(frozen=True)
class CalibrationBin:
    """Pairs whose scores lie in one part of the scale.

    Attributes:
        low: where the part begins.
        high: where it ends.
        pairs: how many scores lie in it; a score on its upper end belongs to the next one.
        score: their mean, None without a pair.
        gold: mean grade of the same pairs by people, None without a pair.
        interval: of that mean, 95 %, by the normal approximation; None for fewer than five pairs.
    """

    low: float
    high: float
    pairs: int
    score: float | None = None
    gold: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Calibration:
    """How far scores are from grades.

    Attributes:
        bins: equal parts of the scale.
        bias: mean score minus mean grade.
        error: mean absolute difference of score and grade.
        within_half: share of the pairs whose score is at most half a point off.
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
        gold: grades by people.
        predicted: scores of the same pairs.
        scale: lowest and highest score.
        bins: how many equal parts of the scale.
    """
    grades, scores = np.asarray(gold, dtype=float), np.asarray(predicted, dtype=float)
    if not len(scores) or grades.shape != scores.shape:
        raise TertiumError(f"Calibration needs a grade for each score: {len(grades)} grades.")
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
    if count >= _FEWEST:
        half = 1.96 * float(grades.std(ddof=1)) / count**0.5
        interval = (mean - half, mean + half)
    return CalibrationBin(low, high, count, float(scores.mean()), mean, interval)


def calibration_figure(found: Mapping[str, Calibration]) -> "Figure":
    """Mean grade against mean score, bin by bin, and below how many pairs each bin has."""
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
        counts.set_xlabel("score of the model")
        if at == 0:
            axes.set_ylabel("grade by people")
            counts.set_ylabel("pairs")
            axes.legend(frameon=False, loc="upper left")
    return figure
