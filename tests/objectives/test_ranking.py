"""CoSENT, AnglE and multiple negatives: own formulas, and the values of sentence-transformers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.functional import cosine_pairs
from tertium.objectives import OBJECTIVES, AnglE, CoSent, InfoNCE
from tertium.objectives.ranking import angle_similarity, cosent
from tertium.types import Encoded, ViewPair

SEEDS = st.integers(0, 2**16)


def drawn(seed: int, n: int = 6, width: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.randn(2, n, width, generator=generator)
    return u, v, torch.randint(0, 6, (n,), generator=generator).float()


def views(u: Tensor, v: Tensor, labels: Tensor | None = None, w: Tensor | None = None) -> ViewPair:
    def side(rows: Tensor) -> Encoded:
        return Encoded(rows, rows[:, None], torch.ones(len(rows), 1, dtype=torch.long))

    return ViewPair(side(u), side(v), None if w is None else side(w), labels)


def value(objective: CoSent | AnglE | InfoNCE, given: ViewPair) -> Tensor:
    return sum(objective(given).values(), start=torch.zeros(()))


@given(SEEDS)
@settings(max_examples=20)
def test_cosent_of_pairs_is_a_sum_over_pairs_in_the_wrong_order(seed: int) -> None:
    u, v, labels = drawn(seed)
    cosines = cosine_pairs(u, v).tolist()
    total = sum(
        math.exp((cosines[j] - cosines[i]) / 0.05)
        for i in range(len(labels))
        for j in range(len(labels))
        if labels[i] > labels[j]
    )
    assert_close(
        value(CoSent(), views(u, v, labels)).item(), math.log1p(total), rtol=1e-4, atol=1e-5
    )


@given(SEEDS, st.floats(0.1, 10), st.floats(-3, 3))
@settings(max_examples=20)
def test_only_the_order_of_labels_and_the_direction_of_vectors_count(
    seed: int, factor: float, shift: float
) -> None:
    u, v, labels = drawn(seed)
    order = torch.randperm(len(u), generator=torch.Generator().manual_seed(seed))
    for objective in (CoSent(), AnglE()):
        plain = value(objective, views(u, v, labels))
        assert_close(
            value(objective, views(factor * u, v / factor, factor * labels + shift)), plain
        )
        assert_close(value(objective, views(u[order], v[order], labels[order])), plain)


@given(SEEDS)
@settings(max_examples=20)
def test_the_angle_is_that_of_complex_numbers(seed: int) -> None:
    u, v, _ = drawn(seed)
    z = torch.complex(*u.double().chunk(2, dim=1))
    w = torch.complex(*v.double().chunk(2, dim=1))
    quotient = z * w.conj() / (z.norm(dim=1) * w.norm(dim=1))[:, None]
    expected = (quotient.real + quotient.imag).sum(dim=1).abs()
    assert_close(angle_similarity(u, v).double(), expected, rtol=1e-4, atol=1e-5)
    assert_close(angle_similarity(u, u), torch.ones(len(u)))


def test_odd_widths_have_no_angle() -> None:
    with pytest.raises(TertiumError, match="even width, but these have 3"):
        angle_similarity(torch.ones(2, 3), torch.ones(2, 3))


@pytest.mark.parametrize("kind", ["cosent", "angle"])
def test_degenerate_batches_have_finite_gradients(kind: str) -> None:
    for labels in (torch.ones(4), torch.tensor([0.0, 1.0, 1.0, 0.0])):
        u = torch.zeros(4, 6, requires_grad=True)
        found = value(OBJECTIVES[kind](), views(u, torch.ones(4, 6), labels))  # type: ignore[arg-type]
        found.backward()
        assert found.isfinite() and u.grad is not None and u.grad.isfinite().all()
    assert cosent(torch.rand(3), torch.ones(3), temperature=0.05) == 0


class _Vectors:
    """What sentence-transformers' losses ask of a model: vectors that are there already."""

    def __call__(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features


@given(SEEDS)
@settings(max_examples=5, deadline=None)
def test_equal_to_sentence_transformers(seed: int) -> None:
    losses = pytest.importorskip("sentence_transformers.losses")
    u, v, labels = drawn(seed)
    w = drawn(seed + 1)[0]
    two = [{"sentence_embedding": rows} for rows in (u, v)]
    three = [*two, {"sentence_embedding": w}]
    assert_close(value(CoSent(), views(u, v, labels)), losses.CoSENTLoss(_Vectors())(two, labels))
    assert_close(value(AnglE(), views(u, v, labels)), losses.AnglELoss(_Vectors())(two, labels))
    ranking = losses.MultipleNegativesRankingLoss(_Vectors())
    assert_close(value(InfoNCE(), views(u, v)), ranking(two, None))
    assert_close(value(InfoNCE(), views(u, v, w=w)), ranking(three, None))
    close = losses.CosineSimilarityLoss(_Vectors())
    from tertium.heads import CosineHead

    mse = OBJECTIVES["mse"](head=CosineHead(), low=0.0, high=1.0, clip="none")
    assert_close(value(mse, views(u, v, labels / 5)), close(two, labels / 5))  # type: ignore[arg-type]
