from typing import Any

import numpy as np
import pytest

from tertium.analysis import gold_scatter
from tertium.analysis.agreement import running_medians

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
