from typing import Any

import pytest

from tertium.analysis import (
    Place,
    alignment_uniformity_plane,
    energy_against_scores,
    energy_curves,
    interval_figure,
)
from tertium.drawing import shortened


def labels(figure: Any) -> list[str]:
    legend = figure.axes[0].get_legend() or figure.legends[0]
    return [text.get_text() for text in legend.get_texts()]


def points(axes: Any) -> list[tuple[float, float]]:
    return [tuple(collection.get_offsets()[0]) for collection in axes.collections]


def test_a_point_per_model_in_the_plane() -> None:
    figure: Any = alignment_uniformity_plane(
        {"one": Place(0.2, -3.0, 78.96), "two": Place(0.3, -2.0)}
    )
    assert points(figure.axes[0]) == [(-3.0, 0.2), (-2.0, 0.3)]
    assert labels(figure) == ["one (79.0)", "two"]


def test_more_models_than_colours_stay_apart() -> None:
    figure: Any = energy_against_scores({str(at): (at / 10, 70.0 + at) for at in range(9)})
    looks = {
        (tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes())
        for c in figure.axes[0].collections
    }
    assert len(looks) == 9
    figure.canvas.draw()


def test_energy_by_layer() -> None:
    figure: Any = energy_curves({"shallow": [0.1, 0.2], "deep": [0.3, 0.2, 0.1]})
    shallow, deep = figure.axes[0].lines
    assert shallow.get_xydata().tolist() == [[1, 0.1], [2, 0.2]] and len(deep.get_xdata()) == 3
    assert figure.axes[0].get_ylim()[0] == 0


@pytest.mark.parametrize("interval", [(70.0, 80.0), None])
def test_intervals_side_by_side(interval: tuple[float, float] | None) -> None:
    figure: Any = interval_figure(
        {"STS-B": {"one": (75.0, interval), "two": (78.0, None)}, "own": {"two": (60.0, None)}}
    )
    (axes,) = figure.axes
    assert [place[0] for place in points(axes)] == [75.0, 78.0, 60.0]
    spans = [line.get_xdata() for line in axes.lines if list(line.get_xdata()) == [70.0, 80.0]]
    assert len(spans) == (interval is not None)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["STS-B", "own"]
    assert labels(figure) == ["one", "two"]
    figure.canvas.draw()


def test_a_long_name_keeps_its_end() -> None:
    assert shortened("default") == "default"
    assert shortened("x" * 40 + "/model") == "…" + "x" * 22 + "/model"
