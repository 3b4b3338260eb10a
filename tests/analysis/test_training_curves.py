from typing import Any

import numpy as np
import pytest

from tertium.analysis import low_shot_gains, training_curves, variant_figure
from tertium.errors import TertiumError
from tests.analysis.test_curves import AVERAGES

LOG = [
    {"loss": 3.0, "step": 1},
    {"eval_score": 70.0, "eval_uniformity": -2.0, "step": 1},
    {"loss": 2.0, "step": 2},
    {"train_runtime": 3.0},
]


def test_a_panel_per_measure_that_is_there() -> None:
    figure: Any = training_curves({"one": LOG, "two": LOG[:1]})
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["loss", "selection score", "uniformity"]
    one, two = figure.axes[0].lines
    assert one.get_xydata().tolist() == [[1, 3.0], [2, 2.0]] and len(two.get_xdata()) == 1
    assert len(figure.axes[1].lines) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    figure.canvas.draw()
    with pytest.raises(TertiumError, match="neither a loss"):
        training_curves({"one": LOG[-1:]})


def test_mean_and_deviation_of_variants() -> None:
    figure: Any = variant_figure({"alpha 0": [40.0, 42.0], "alpha 1": [39.0]})
    (axes,) = figure.axes
    middle, *_ = axes.containers[0].lines
    assert middle.get_xdata()[0] == 41.0
    bars = axes.containers[0].lines[2][0].get_segments()[0]
    spread = float(np.std([40, 42], ddof=1))
    np.testing.assert_allclose(bars[:, 0], [41 - spread, 41 + spread])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alpha 0", "alpha 1"]
    with pytest.raises(TertiumError, match="no variant"):
        variant_figure({})


def test_gains_are_seed_by_seed() -> None:
    figure: Any = low_shot_gains(AVERAGES, baseline="simcse")
    (axes,) = figure.axes
    base, gains, *spans = axes.lines
    assert base.get_linestyle() == "--"
    np.testing.assert_allclose(gains.get_xydata(), [(100, 6), (1000, 2.5), (10000, 1.5)])
    assert list(spans[0].get_ydata()) == [4.0, 8.0]
    with pytest.raises(TertiumError, match="another one"):
        low_shot_gains({"simcse": AVERAGES["simcse"]}, baseline="simcse")
