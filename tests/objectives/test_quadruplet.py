import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.objectives.quadruplet import Quadruplet, ordered_pairs, quadruplet
from tertium.objectives.regression import MSE, SmoothK2
from tertium.types import Compared, Encoded, Graded, ViewPair

LABELS = torch.tensor([1.0, 0.25, 0.5, 0.5, 0.75, 0.0])
GROUPS = torch.tensor([0, 0, 1, 1, 2, 2])


def graded(cosine: torch.Tensor | None, labels: torch.Tensor = LABELS) -> Graded:
    score = torch.zeros(len(labels)) if cosine is None else cosine
    return Graded(Compared(score, cosine), labels, GROUPS[: len(labels)])


@given(seed=st.integers(0, 999), margin=st.floats(0.1, 2))
def test_it_is_a_plain_loop(seed: int, margin: float) -> None:
    cosine = torch.rand(6, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    expected = [
        max(0.0, margin + (1 - float(cosine[i])) - (1 - float(cosine[j])))
        for i in range(6)
        for j in range(6)
        if GROUPS[i] == GROUPS[j] and LABELS[i] > LABELS[j]
    ]
    found = Quadruplet(margin=margin).judge(graded(cosine))["quadruplet"].value
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
    value = Quadruplet().judge(graded(cosine, torch.full((4,), 0.5)))["quadruplet"].value
    assert value.sum() == 0
    value.sum().backward()
    assert cosine.grad is not None and cosine.grad.isfinite().all()


def test_it_needs_vectors_conditions_and_a_margin() -> None:
    with pytest.raises(TertiumError, match="needs head bi or tri"):
        Quadruplet().judge(graded(None))
    with pytest.raises(TertiumError, match="margin must be positive"):
        Quadruplet(margin=0.0)
    side = Encoded(torch.zeros(1, 2), torch.zeros(1, 1, 2), torch.ones(1, 1, dtype=torch.long))
    with pytest.raises(TertiumError, match="conditional data alone"):
        Quadruplet().terms(ViewPair(side, side))


def test_regression_judges_scores_that_are_there() -> None:
    scores = torch.tensor([0.5, 0.25, 1.5, 0.5, 0.0, 0.0])
    given = Graded(Compared(scores), LABELS, GROUPS)
    head = torch.nn.Identity()
    found = MSE(head=head, low=0.0, high=1.0, clip="none").judge(given)["mse"].value
    assert_close(found, (scores - LABELS).square())
    found = (
        SmoothK2(head=head, low=0.0, high=1.0, threshold=0.1, slope=2.0)
        .judge(given)["smooth_k2"]
        .value
    )
    clipped = scores.clamp(0, 1)
    assert_close(found, 2 * ((clipped - LABELS).abs() - 0.1).clamp(min=0).square())
