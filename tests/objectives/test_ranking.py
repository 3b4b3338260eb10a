import math

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, tuples

from tertium.errors import TertiumError
from tertium.objectives import CoSent
from tertium.objectives.ranking import cosent
from tertium.types import Compared, Graded

rows = lists(tuples(floats(-1, 1), integers(1, 5)), min_size=1, max_size=7)


@given(rows=rows, temperature=floats(0.05, 2))
def test_it_is_the_sum_over_pairs_in_the_wrong_order(
    rows: list[tuple[float, int]], temperature: float
) -> None:
    scores = torch.tensor([score for score, _ in rows], dtype=torch.float64)
    labels = torch.tensor([label for _, label in rows], dtype=torch.float64)
    total = 1.0
    for s_i, y_i in rows:
        for s_j, y_j in rows:
            total += math.exp((s_j - s_i) / temperature) if y_i > y_j else 0.0
    found = cosent(scores, labels, temperature=temperature)
    assert found.item() == pytest.approx(math.log(total), rel=1e-9, abs=1e-12)


def test_the_right_order_costs_less_than_the_wrong_one() -> None:
    labels = torch.tensor([0.0, 0.5, 1.0])
    right, wrong = torch.tensor([0.1, 0.4, 0.9]), torch.tensor([0.9, 0.4, 0.1])
    assert cosent(right, labels, temperature=0.05) < 0.1
    assert cosent(wrong, labels, temperature=0.05) > 10


def test_gradients() -> None:
    scores = torch.tensor([0.3, 0.1, 0.8, 0.2], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: cosent(s, labels, temperature=0.5), scores)


def test_equal_labels_cost_nothing_and_pass_no_gradient() -> None:
    scores = torch.tensor([0.3, 0.1], requires_grad=True)
    graded = Graded(Compared(scores), torch.ones(2), torch.zeros(2).long())
    value = CoSent().judge(graded)["cosent"].value
    assert value.tolist() == [0.0]
    value.sum().backward()
    assert scores.grad is not None and not scores.grad.any()


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(TertiumError, match="temperature must be positive"):
        CoSent(temperature=0.0)
