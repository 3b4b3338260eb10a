from typing import Any

import numpy as np
import pytest

from tertium.analysis import low_shot_curves, low_shot_gains, training_curves, variant_figure
from tertium.errors import TertiumError

AVERAGES = {
    "simcse": {1000: [70.0, 72.0], 100: [60.0, 66.0], 10000: [75.0, 75.0]},
    "micse": {100: [68.0, 70.0], 1000: [73.0, 74.0], 10000: [76.0, 77.0]},
}


def axes_of(averages: Any, **options: Any) -> Any:
    (axes,) = low_shot_curves(averages, **options).axes
    return axes


def test_a_line_of_means_per_recipe() -> None:
    axes = axes_of(AVERAGES)
    one, two = axes.lines
    np.testing.assert_allclose(one.get_xydata(), [(100, 63), (1000, 71), (10000, 75)])
    np.testing.assert_allclose(two.get_xydata(), [(100, 69), (1000, 73.5), (10000, 76.5)])
    assert one.get_color() != two.get_color() and one.get_marker() != two.get_marker()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["simcse", "micse"]


def test_a_band_of_one_deviation() -> None:
    band, _ = axes_of(AVERAGES).collections
    places = {tuple(place) for place in band.get_paths()[0].vertices.round(3).tolist()}
    spread = round(float(np.std([60, 66], ddof=1)), 3)
    assert {(100.0, round(63 - spread, 3)), (100.0, round(63 + spread, 3))} <= places
    assert (10000.0, 75.0) in places  # two equal seeds


def test_axes_are_named_and_sizes_are_logarithmic() -> None:
    axes = axes_of(AVERAGES)
    assert axes.get_xscale() == "log" and axes.get_yscale() == "linear"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "1,000", "10,000"]
    assert axes.get_xlabel() == "sentences" and "STS average" in axes.get_ylabel()


def test_the_untrained_model_is_a_dashed_line() -> None:
    axes = axes_of(AVERAGES, floor=55.0)
    *_, floor = axes.lines
    assert floor.get_linestyle() == "--" and set(floor.get_ydata()) == {55.0}
    assert axes.get_legend().get_texts()[-1].get_text() == "untrained"


@pytest.mark.parametrize("count", [1, 9])
def test_one_size_one_seed_and_many_recipes(count: int) -> None:
    axes = axes_of({f"recipe {at}": {500: [70.0 + at]} for at in range(count)})
    assert len(axes.lines) == count
    axes.figure.canvas.draw()


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
    with pytest.raises(TertiumError, match="no variants"):
        variant_figure({})


def test_gains_are_seed_by_seed() -> None:
    figure: Any = low_shot_gains(AVERAGES, baseline="simcse")
    (axes,) = figure.axes
    base, gains, *spans = axes.lines
    assert base.get_linestyle() == "--"
    np.testing.assert_allclose(gains.get_xydata(), [(100, 6), (1000, 2.5), (10000, 1.5)])
    assert list(spans[0].get_ydata()) == [4.0, 8.0]
    with pytest.raises(TertiumError, match="at least one other"):
        low_shot_gains({"simcse": AVERAGES["simcse"]}, baseline="simcse")
