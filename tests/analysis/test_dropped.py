from typing import Any

import pytest

from tertium.analysis import Augmented, Step, dropped_figure

FOUND = Augmented(
    ("[CLS]", "a", "cat", "sleeps", "[SEP]"),
    (90.0, 1.0, 3.0, 2.0, 4.0),
    (False, True, True, True, False),
    (Step(1, "a", "cat sleeps"), Step(3, "sleeps", "cat")),
)


def test_bars_order_and_what_is_cut() -> None:
    figure: Any = dropped_figure({"naive": FOUND, "rollout": FOUND})
    naive, rollout = figure.axes
    assert (naive.get_title(), rollout.get_title()) == ("naive", "rollout")
    widths = [bar.get_width() for bar in naive.patches]
    assert widths == pytest.approx([3.75, 1.0, 3.0, 2.0, 3.75])  # CLS would dwarf all others
    numbers = {text.get_text().strip(): text.get_position()[1] for text in naive.texts}
    assert (numbers["1."], numbers["2."], numbers["90.0"]) == (1, 3, 0)
    colours = [bar.get_facecolor() for bar in naive.patches]
    assert colours[1] == colours[3] != colours[2] and colours[0] == colours[4]
    figure.canvas.draw()
