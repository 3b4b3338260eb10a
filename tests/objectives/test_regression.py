import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.heads import CosineHead, SiameseHead
from tertium.objectives import L1, MSE, OBJECTIVES, CrossEntropy, SmoothK2, TranslatedReLU
from tertium.objectives.base import NonFiniteLossError
from tertium.objectives.regression import (
    Clip,
    absolute_error,
    clip_to_range,
    smooth_k2,
    squared_error,
    translated_relu,
)
from tertium.types import Encoded, ViewPair
from tests.functional.draws import SEEDS, normal

SLOPES = st.floats(0.1, 5)
THRESHOLDS = st.floats(0, 1)
DEAD_ZONES = {"translated_relu": translated_relu, "smooth_k2": smooth_k2}

dead_zone = pytest.mark.parametrize("name", DEAD_ZONES)


def column(*values: float, grad: bool = False) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


def by_hand(name: str, x: float, slope: float, threshold: float) -> float:
    if x < threshold:
        return 0.0
    return slope * (x - threshold) ** (1 if name == "translated_relu" else 2)


def encoded(embedding: Tensor) -> Encoded:
    n = len(embedding)
    return Encoded(embedding, tokens=embedding[:, None], mask=torch.ones(n, 1, dtype=torch.long))


def views(labels: Tensor | None, *, width: int = 4) -> ViewPair:
    n = 3 if labels is None else len(labels)
    u, v = torch.randn(2, n, width, generator=torch.Generator().manual_seed(0))
    return ViewPair(encoded(u), encoded(v), labels=labels)


class Given(nn.Module):
    """A head that answers what it was told to."""

    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        return self.scores.unsqueeze(1)


# formulas


@dead_zone
@given(n=st.integers(1, 6), seed=SEEDS, slope=SLOPES, threshold=THRESHOLDS)
def test_equals_a_loop(name: str, n: int, seed: int, slope: float, threshold: float) -> None:
    predicted, gold = normal(seed, 2, n)
    values = DEAD_ZONES[name](predicted, gold, slope=slope, threshold=threshold)
    for value, p, g in zip(values.tolist(), predicted.tolist(), gold.tolist(), strict=True):
        assert_close(value, by_hand(name, abs(p - g), slope, threshold))


@dead_zone
@given(n=st.integers(1, 6), seed=SEEDS, slope=SLOPES, threshold=THRESHOLDS)
def test_sign_order_and_invariances(
    name: str, n: int, seed: int, slope: float, threshold: float
) -> None:
    predicted, gold = normal(seed, 2, n)
    loss: Callable[..., Tensor] = DEAD_ZONES[name]
    values = loss(predicted, gold, slope=slope, threshold=threshold)
    assert (values >= 0).all()
    assert_close(values, loss(gold, predicted, slope=slope, threshold=threshold))
    assert_close(2 * values, loss(predicted, gold, slope=2 * slope, threshold=threshold))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert_close(
        values[order], loss(predicted[order], gold[order], slope=slope, threshold=threshold)
    )
    assert (values <= loss(predicted, gold, slope=slope, threshold=threshold / 2)).all()


@dead_zone
@given(gold=st.floats(-5, 5), share=st.floats(-0.999, 0.999), slope=SLOPES, threshold=THRESHOLDS)
def test_the_dead_zone_is_zero_and_without_gradient(
    name: str, gold: float, share: float, slope: float, threshold: float
) -> None:
    predicted = column(gold + share * threshold, grad=True)
    assume(abs(predicted.item() - gold) < threshold)
    loss = DEAD_ZONES[name](predicted, column(gold), slope=slope, threshold=threshold)
    loss.sum().backward()
    assert loss.item() == 0
    assert predicted.grad is not None and predicted.grad.item() == 0


@dead_zone
@given(slope=SLOPES, threshold=THRESHOLDS, side=st.sampled_from([-1, 1]))
def test_it_is_continuous_at_the_threshold(
    name: str, slope: float, threshold: float, side: int
) -> None:
    near = column(*(side * (threshold + e) for e in (-1e-9, 0.0, 1e-9)))
    values = DEAD_ZONES[name](near, torch.zeros(3).double(), slope=slope, threshold=threshold)
    assert_close(values, torch.zeros(3).double(), atol=1e-7, rtol=0)


@given(
    slope=SLOPES, threshold=st.sampled_from([0.125, 0.25, 0.5, 1.0]), side=st.sampled_from([-1, 1])
)
def test_the_gradient_at_the_threshold_is_the_slope(
    slope: float, threshold: float, side: int
) -> None:
    at = column(side * threshold, grad=True)
    translated_relu(at, column(0.0), slope=slope, threshold=threshold).sum().backward()
    assert at.grad is not None and at.grad.item() == side * slope
    at = column(side * threshold, grad=True)
    smooth_k2(at, column(0.0), slope=slope, threshold=threshold).sum().backward()
    assert at.grad is not None and at.grad.item() == 0  # smooth: no jump in the gradient


@dead_zone
@given(n=st.integers(1, 4), seed=SEEDS, slope=SLOPES, threshold=THRESHOLDS)
def test_gradients_elsewhere(name: str, n: int, seed: int, slope: float, threshold: float) -> None:
    predicted, gold = normal(seed, 2, n)
    x = (predicted - gold).abs()
    assume(bool(((x - threshold).abs() > 1e-4).all() and (x > 1e-4).all()))
    assert gradcheck(
        lambda p: DEAD_ZONES[name](p, gold, slope=slope, threshold=threshold),
        (predicted.requires_grad_(),),
    )


@given(n=st.integers(1, 6), seed=SEEDS)
def test_baselines_are_the_limits_without_a_dead_zone(n: int, seed: int) -> None:
    predicted, gold = normal(seed, 2, n)
    for value, p, g in zip(absolute_error(predicted, gold), predicted, gold, strict=True):
        assert_close(value.item(), abs(p.item() - g.item()))
    for value, p, g in zip(squared_error(predicted, gold), predicted, gold, strict=True):
        assert_close(value.item(), (p.item() - g.item()) ** 2)
    assert_close(
        translated_relu(predicted, gold, slope=1.0, threshold=0.0), absolute_error(predicted, gold)
    )
    assert_close(
        smooth_k2(predicted, gold, slope=1.0, threshold=0.0), squared_error(predicted, gold)
    )


@given(seed=SEEDS, n=st.integers(1, 6), clip=st.sampled_from(list(Clip)))
def test_clipping_and_its_gradient(seed: int, n: int, clip: Clip) -> None:
    raw = (3 * normal(seed, n)).requires_grad_()
    clipped = clip_to_range(raw, low=-1.0, high=2.0, clip=clip)
    clipped.sum().backward()
    assert raw.grad is not None
    for value, before, gradient in zip(
        clipped.tolist(), raw.tolist(), raw.grad.tolist(), strict=True
    ):
        low = clip is not Clip.NONE and before < -1
        high = clip is Clip.BOTH and before > 2
        assert value == (-1.0 if low else 2.0 if high else before)
        assert gradient == (0.0 if low or high else 1.0)


# objectives


def test_they_are_registered() -> None:
    classes = {"l1": L1, "mse": MSE, "cross_entropy": CrossEntropy}
    classes |= {"translated_relu": TranslatedReLU, "smooth_k2": SmoothK2}
    assert {kind: OBJECTIVES[kind] for kind in classes} == classes


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("l1", [1.0, 0.0, 0.5]),
        ("mse", [1.0, 0.0, 0.25]),
        ("translated_relu", [1.5, 0.0, 0.5]),
        ("smooth_k2", [1.125, 0.0, 0.125]),
    ],
)
def test_known_values(kind: str, expected: list[float]) -> None:
    # Score 7 is moved to 5, the end of the range; the label there is 4.
    objective = OBJECTIVES[kind](head=Given(7.0, 2.0, 3.5), low=0.0, high=5.0)
    batch = views(torch.tensor([4.0, 2.0, 3.0]))
    terms = objective.terms(batch)
    assert terms.keys() == {kind}
    assert_close(terms[kind].value, torch.tensor(expected))
    assert_close(objective(batch)[kind], torch.tensor(expected).mean())


@pytest.mark.parametrize(
    ("clip", "moved"), [("both", [True, True]), ("low", [True, False]), ("none", [False, False])]
)
def test_a_score_beyond_the_range_learns_only_where_it_is_not_clipped(
    clip: str, moved: list[bool]
) -> None:
    head = Given(-2.0, 7.0)
    MSE(head=head, low=0.0, high=5.0, clip=clip)(views(torch.tensor([1.0, 4.0])))["mse"].backward()
    assert head.scores.grad is not None
    assert [gradient == 0 for gradient in head.scores.grad.tolist()] == moved


@given(
    n=st.integers(1, 5),
    low=st.sampled_from([0.0, 1.0]),
    step=st.sampled_from([0.5, 1.0]),
    seed=SEEDS,
)
def test_cross_entropy_equals_the_naive_one(n: int, low: float, step: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, 3, (n,), generator=generator)
    u, v = torch.randn(2, n, 4, dtype=torch.float64, generator=generator)
    head = SiameseHead(dimension=4, outputs=3, seed=seed).double()
    batch = ViewPair(encoded(u), encoded(v), labels=low + step * classes.double())
    values = CrossEntropy(head=head, low=low, step=step).terms(batch)["cross_entropy"].value
    for value, scores, true in zip(values.tolist(), head(u, v).tolist(), classes, strict=True):
        total = sum(math.exp(score) for score in scores)
        assert_close(value, -math.log(math.exp(scores[true]) / total))


def built(kind: str, **settings: object) -> nn.Module:
    if kind == "cross_entropy":
        return CrossEntropy(head=SiameseHead(dimension=4, outputs=3), low=0.0, step=1.0)
    return OBJECTIVES[kind](head=SiameseHead(dimension=4), low=0.0, high=5.0, **settings)


GRADED = ["l1", "mse", "translated_relu", "smooth_k2", "cross_entropy"]


@pytest.mark.parametrize("kind", GRADED)
def test_without_labels_it_says_so(kind: str) -> None:
    with pytest.raises(TertiumError, match="needs labels"):
        built(kind)(views(None))


@pytest.mark.parametrize("kind", GRADED)
def test_a_loss_that_is_not_finite_raises_by_name(kind: str) -> None:
    bad = encoded(torch.full((2, 4), math.nan))
    with pytest.raises(NonFiniteLossError, match=f"'{kind}'"):
        built(kind)(ViewPair(bad, bad, labels=torch.tensor([0.0, 2.0])))


@pytest.mark.parametrize("head", [SiameseHead(dimension=4), CosineHead(low=0.0, high=5.0)])
def test_gradients_reach_both_sides_and_the_head(head: nn.Module) -> None:
    u, v = (torch.randn(6, 4, requires_grad=True) for _ in range(2))
    batch = ViewPair(encoded(u), encoded(v), labels=torch.arange(6) * 0.9)
    SmoothK2(head=head, low=0.0, high=5.0, clip="none")(batch)["smooth_k2"].backward()
    for tensor in (u, v, *head.parameters()):
        assert tensor.grad is not None and tensor.grad.any() and tensor.grad.isfinite().all()


def test_equal_sentences_and_zero_vectors_have_finite_gradients() -> None:
    u = torch.zeros(2, 4, requires_grad=True)
    batch = ViewPair(encoded(u), encoded(u), labels=torch.tensor([0.0, 5.0]))
    for head in (SiameseHead(dimension=4), CosineHead(low=0.0, high=5.0)):
        SmoothK2(head=head, low=0.0, high=5.0)(batch)["smooth_k2"].backward()
        assert u.grad is not None and u.grad.isfinite().all()


def test_an_unknown_clip_is_refused() -> None:
    with pytest.raises(TertiumError, match="No clip 'high'"):
        MSE(head=Given(1.0), low=0.0, high=5.0, clip="high")
