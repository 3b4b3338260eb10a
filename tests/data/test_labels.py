import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError

NLI = OrderedLabels.named(["contradiction", "neutral", "entailment"])
GRADES = OrderedLabels(0.0, 5.0)


@given(
    k=st.integers(2, 9), low=st.floats(-3, 3), step=st.floats(0.1, 4), noise=st.floats(-0.49, 0.49)
)
def test_names_take_equal_steps_and_come_back(
    k: int, low: float, step: float, noise: float
) -> None:
    names = [f"label {at}" for at in range(k)]
    labels = OrderedLabels.named(names, low=low, step=step)
    values = [labels.value(name) for name in names]
    assert values == pytest.approx([low + step * at for at in range(k)])
    assert (labels.low, labels.high) == pytest.approx((values[0], values[-1]))
    assert labels.nearest([value + noise * step for value in values]) == names
    assert labels.classes(values).tolist() == list(range(k))


@given(value=st.floats(-50, 50), step=st.sampled_from([0.25, 0.5, 1.0, 2.5]))
def test_the_nearest_grade_is_within_the_range_and_the_closest(value: float, step: float) -> None:
    labels = OrderedLabels(-5.0, 5.0, step)
    (found,) = labels.nearest([value])
    steps = [-5.0 + step * at for at in range(round(10 / step) + 1)]
    assert found in steps
    assert abs(float(found) - value) == min(abs(one - value) for one in steps)


@pytest.mark.parametrize(("value", "rounded"), [(0.0, 0), (2.5, 3), (2.49, 2), (4.8, 5), (0.5, 1)])
def test_halves_are_rounded_upwards(value: float, rounded: float) -> None:
    assert GRADES.rounded(value) == rounded
    assert GRADES.nearest([value]) == [rounded]


def test_a_grade_is_a_number_already() -> None:
    assert GRADES.value(3.25) == 3.25
    assert GRADES.value("5") == 5.0
    assert GRADES.classes(np.array([[-1.0, 2.2], [4.6, 9.0]])).tolist() == [[0, 2], [5, 5]]


@pytest.mark.parametrize("value", [-0.01, 5.01, math.inf, math.nan])
def test_a_grade_outside_the_range_is_refused(value: float) -> None:
    with pytest.raises(TertiumError, match=r"not between 0 and 5\. .*low and high"):
        GRADES.value(value)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(TertiumError, match="Did you mean 'neutral'"):
        NLI.value("neutrall")


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(1, 1, 1), (2, 1, 1), (0, 1, 0), (0, 1, -1), (math.nan, 1, 1), (0, 5, 2), (0, 1, 5)],
)
def test_ranges_that_are_none(low: float, high: float, step: float) -> None:
    with pytest.raises(TertiumError, match="labels"):
        OrderedLabels(low, high, step)


def test_a_range_of_decimal_steps_is_whole() -> None:
    assert OrderedLabels(0.0, 1.0, 0.1).nearest([0.31, 0.96]) == pytest.approx([0.3, 1.0])


@pytest.mark.parametrize("names", [[], ["one"], ["one", "two", "one"]])
def test_names_must_be_several_and_different(names: list[str]) -> None:
    with pytest.raises(TertiumError, match="two or more different names"):
        OrderedLabels.named(names)


@given(step=st.floats(0.1, 5), share=st.floats(0, 2))
def test_a_dead_zone_is_at_most_half_a_step(step: float, share: float) -> None:
    labels = OrderedLabels.named(["no", "yes"], step=step)
    threshold = share * step / 2
    if threshold <= step / 2:
        labels.check_threshold(threshold)
    else:
        with pytest.raises(TertiumError, match="half the labels' step"):
            labels.check_threshold(threshold)
    with pytest.raises(TertiumError, match="threshold"):
        labels.check_threshold(-0.1)
