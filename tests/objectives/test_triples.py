import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.objectives import Consistency, CoSent
from tertium.objectives.ranking import cosent
from tertium.objectives.regression import MSE, SmoothK2
from tertium.objectives.triples import Quadruplet, ordered_pairs, quadruplet
from tertium.types import Encoded, Graded, HeadOutput, ViewPair

LABELS = torch.tensor([1.0, 0.25, 0.5, 0.5, 0.75, 0.0])
GROUPS = torch.tensor([0, 0, 1, 1, 2, 2])


def graded(cosine: torch.Tensor | None, labels: torch.Tensor = LABELS) -> Graded:
    score = torch.zeros(len(labels)) if cosine is None else cosine
    return Graded(HeadOutput(score, cosine), labels, GROUPS[: len(labels)])


@given(seed=st.integers(0, 999), margin=st.floats(0.1, 2))
def test_quadruplet_is_a_plain_loop(seed: int, margin: float) -> None:
    cosine = torch.rand(6, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    expected = [
        max(0.0, margin + (1 - float(cosine[i])) - (1 - float(cosine[j])))
        for i in range(6)
        for j in range(6)
        if GROUPS[i] == GROUPS[j] and LABELS[i] > LABELS[j]
    ]
    found = Quadruplet(margin=margin).terms_from_scores(graded(cosine))["quadruplet"].value
    assert len(expected) == 2  # the pair with equal labels has no part in it
    assert_close(found, torch.tensor(expected))


def test_a_known_value() -> None:
    assert_close(
        quadruplet(torch.tensor([0.9, 0.2]), torch.tensor([0.1, 0.8]), margin=0.5),
        torch.tensor([0.0, 1.1]),
    )
    assert ordered_pairs(LABELS, GROUPS).nonzero().tolist() == [[0, 1], [4, 5]]


def test_a_batch_without_order_is_a_zero_that_can_be_differentiated() -> None:
    cosine = torch.rand(4, requires_grad=True)
    value = (
        Quadruplet().terms_from_scores(graded(cosine, torch.full((4,), 0.5)))["quadruplet"].value
    )
    assert value.sum() == 0
    value.sum().backward()
    assert cosine.grad is not None and cosine.grad.isfinite().all()


def test_it_needs_vectors_conditions_and_a_margin() -> None:
    with pytest.raises(TertiumError, match="needs head bi or tri"):
        Quadruplet().terms_from_scores(graded(None))
    with pytest.raises(TertiumError, match="margin must be positive"):
        Quadruplet(margin=0.0)
    side = Encoded(torch.zeros(1, 2), torch.zeros(1, 1, 2), torch.ones(1, 1, dtype=torch.long))
    with pytest.raises(TertiumError, match="only from conditional data"):
        Quadruplet().terms(ViewPair(side, side))


def test_regression_compares_scores_that_are_there() -> None:
    scores = torch.tensor([0.5, 0.25, 1.5, 0.5, 0.0, 0.0])
    given = Graded(HeadOutput(scores), LABELS, GROUPS)
    head = torch.nn.Identity()
    found = MSE(head=head, low=0.0, high=1.0, clip="none").terms_from_scores(given)["mse"].value
    assert_close(found, (scores - LABELS).square())
    found = (
        SmoothK2(head=head, low=0.0, high=1.0, threshold=0.1, slope=2.0)
        .terms_from_scores(given)["smooth_k2"]
        .value
    )
    clipped = scores.clamp(0, 1)
    assert_close(found, 2 * ((clipped - LABELS).abs() - 0.1).clamp(min=0).square())


# CoSENT

ROWS = st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 5)), min_size=1, max_size=7)


@given(rows=ROWS, temperature=st.floats(0.05, 2))
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


def test_gradients_of_cosent() -> None:
    scores = torch.tensor([0.3, 0.1, 0.8, 0.2], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0.0, 1.0, 0.5, 0.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: cosent(s, labels, temperature=0.5), scores)


def test_equal_labels_cost_nothing_and_pass_no_gradient() -> None:
    scores = torch.tensor([0.3, 0.1], requires_grad=True)
    graded = Graded(HeadOutput(scores), torch.ones(2), torch.zeros(2).long())
    value = CoSent().terms_from_scores(graded)["cosent"].value
    assert value.tolist() == [0.0]
    value.sum().backward()
    assert scores.grad is not None and not scores.grad.any()


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(TertiumError, match="temperature must be positive"):
        CoSent(temperature=0.0)


# consistency


def read_twice(scores: list[float], passes: int = 2) -> Graded:
    rows = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(len(scores))
    return Graded(HeadOutput(rows), zeros, zeros.long(), passes)


def test_the_squared_distance_of_both_passes() -> None:
    found = Consistency().terms_from_scores(read_twice([0.1, 0.5, 0.4, 0.5]))["consistency"].value
    assert_close(found, torch.tensor([0.09, 0.0], dtype=torch.float64))


def test_gradients_of_consistency() -> None:
    def loss(scores: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(len(scores))
        return (
            Consistency()
            .terms_from_scores(Graded(HeadOutput(scores), zeros, zeros.long(), 2))["consistency"]
            .value
        )

    scores = torch.tensor([0.1, 0.5, 0.4, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, scores)


def test_one_pass_is_refused() -> None:
    with pytest.raises(TertiumError, match="compares two passes"):
        Consistency().terms_from_scores(read_twice([0.1], passes=1))
