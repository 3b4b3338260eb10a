from typing import Any

import numpy as np
import pytest

from tertium.analysis import calibration, calibration_figure, gold_scatter
from tertium.analysis.grades import running_medians
from tertium.errors import TertiumError

GOLD = np.repeat(np.arange(6.0), 4)


RISING = GOLD / 5 + np.tile([0.0, 0.01, 0.02, 0.03], 6)


def test_medians_of_steps_with_enough_pairs() -> None:
    across, up = running_medians(GOLD, RISING, steps=6)
    np.testing.assert_allclose(across, np.arange(6))
    np.testing.assert_allclose(up, np.arange(6) / 5 + 0.015)
    few, _ = running_medians([0.0, 0.0, 0.0, 5.0], [1.0, 2.0, 3.0, 4.0], steps=2)
    assert few.tolist() == [0.0]  # one pair has no median to speak of


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_panel_per_model_with_every_pair(count: int) -> None:
    names = [f"model {at}" for at in range(count)]
    figure: Any = gold_scatter(
        GOLD, dict.fromkeys(names, RISING), correlations=dict.fromkeys(names, 0.98765)
    )
    assert len(figure.axes) == count
    for name, axes in zip(names, figure.axes, strict=True):
        np.testing.assert_allclose(
            axes.collections[0].get_offsets(), np.column_stack([GOLD, RISING])
        )
        assert axes.get_title() == f"{name}\nSpearman 98.8"
    figure.canvas.draw()


def test_by_hand() -> None:
    found = calibration([1, 2, 5, 4], [0.5, 1.5, 4.5, 5.0], scale=(0, 5), bins=5)
    assert [entry.pairs for entry in found.bins] == [1, 1, 0, 0, 2]
    last = found.bins[-1]
    assert (last.low, last.high, last.score, last.gold) == (4.0, 5.0, 4.75, 4.5)
    assert found.bins[2].score is None and last.interval is None  # too few for an interval
    assert found.bias == pytest.approx((11.5 - 12) / 4)
    assert found.error == pytest.approx((0.5 + 0.5 + 0.5 + 1.0) / 4)
    assert found.within_half == 0.75


def test_an_interval_narrows_with_pairs() -> None:
    draw = np.random.default_rng(0)
    widths = []
    for count in (20, 2000):
        gold = draw.normal(3, 1, count)
        (entry,) = calibration(gold, np.full(count, 3.0), scale=(0, 6), bins=1).bins
        assert entry.interval is not None and entry.interval[0] < 3.2 < 4 > entry.interval[1]
        assert entry.gold == pytest.approx(gold.mean())
        widths.append(entry.interval[1] - entry.interval[0])
    assert widths[1] < widths[0] / 5


def test_a_score_on_either_end_belongs_to_a_bin() -> None:
    found = calibration([0, 5], [0, 5], scale=(0, 5))
    assert (found.bins[0].pairs, found.bins[-1].pairs, found.error) == (1, 1, 0.0)


def test_without_pairs() -> None:
    with pytest.raises(TertiumError, match="one grade per score"):
        calibration([], [], scale=(0, 5))


def test_a_column_per_model() -> None:
    gold = np.linspace(0, 5, 60)
    found = calibration(gold, gold, scale=(0, 5))
    figure: Any = calibration_figure({"one": found, "two": found})
    curves = figure.axes[::2]
    assert len(figure.axes) == 4 and [a.get_title() for a in curves] == [
        "one\nmean error 0.00",
        "two\nmean error 0.00",
    ]
    points = curves[0].lines[1].get_xydata()
    np.testing.assert_allclose(points[:, 0], points[:, 1])  # on the diagonal
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == 60
    figure.canvas.draw()
