from typing import Any

import numpy as np
import pytest

from tertium.analysis import low_shot_curves

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
