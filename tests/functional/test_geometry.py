import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tertium.functional import alignment, anisotropy, effective_rank, uniformity
from tests.functional.draws import SEEDS, leaf, normal

ROWS = st.integers(2, 7)
WIDTHS = st.integers(2, 5)


def units(vectors: Tensor) -> list[Tensor]:
    return [row / row.norm() for row in vectors]


def naive_uniformity(vectors: Tensor, t: float) -> float:
    distances = [((u - v) ** 2).sum().item() for u, v in combinations(units(vectors), 2)]
    return math.log(sum(math.exp(-t * square) for square in distances) / len(distances))


@given(n=ROWS, d=WIDTHS, seed=SEEDS)
def test_alignment_equals_a_loop(n: int, d: int, seed: int) -> None:
    u, v = normal(seed, 2, n, d)
    squares = [((a - b) ** 2).sum().item() for a, b in zip(units(u), units(v), strict=True)]
    value = alignment(u, v).item()
    assert value == pytest.approx(sum(squares) / n)
    assert 0 <= value <= 4
    assert alignment(u, 3 * u).item() == pytest.approx(0, abs=1e-12)


@given(n=ROWS, d=WIDTHS, seed=SEEDS, t=st.floats(0.5, 4))
def test_uniformity_equals_a_loop(n: int, d: int, seed: int, t: float) -> None:
    vectors = normal(seed, n, d)
    value = uniformity(vectors, t=t).item()
    assert value == pytest.approx(naive_uniformity(vectors, t))
    assert -4 * t - 1e-9 <= value <= 0


@given(n=ROWS, d=WIDTHS, seed=SEEDS)
def test_anisotropy_equals_a_loop(n: int, d: int, seed: int) -> None:
    vectors = normal(seed, n, d)
    cosines = [(u @ v).item() for u, v in combinations(units(vectors), 2)]
    value = anisotropy(vectors).item()
    assert value == pytest.approx(sum(cosines) / len(cosines), abs=1e-12)
    # Unit vectors cannot repel each other further than this on average.
    assert -1 / (n - 1) - 1e-9 <= value <= 1


@given(n=ROWS, d=WIDTHS, seed=SEEDS)
def test_effective_rank_equals_a_loop(n: int, d: int, seed: int) -> None:
    vectors = normal(seed, n, d)
    centred = vectors - vectors.mean(0)
    singular = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0).sqrt().tolist()
    shares = [value / sum(singular) for value in singular]
    expected = math.exp(-sum(s * math.log(s) for s in shares if s > 0))
    value = effective_rank(vectors).item()
    assert value == pytest.approx(expected, rel=1e-4)
    assert 1 - 1e-9 <= value <= min(n - 1, d) + 1e-9


@pytest.mark.parametrize("measure", [uniformity, anisotropy, effective_rank])
@given(n=ROWS, seed=SEEDS, scale=st.floats(0.01, 100))
def test_scale_order_and_rotation_change_nothing(
    measure: object, n: int, seed: int, scale: float
) -> None:
    assert callable(measure)
    vectors = normal(seed, n, 4)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    rotation = torch.linalg.qr(normal(seed + 1, 4, 4)).Q
    for same in (scale * vectors, vectors[order], vectors @ rotation):
        assert_close(measure(same), measure(vectors), rtol=1e-6, atol=1e-9)


def test_known_values() -> None:
    corners = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=torch.float64)
    # Six pairs: two at squared distance 4, four at squared distance 2.
    expected = math.log((2 * math.exp(-8) + 4 * math.exp(-4)) / 6)
    assert uniformity(corners).item() == pytest.approx(expected)
    assert anisotropy(corners).item() == pytest.approx(-1 / 3)
    assert effective_rank(corners).item() == pytest.approx(2)
    assert effective_rank(corners[:2]).item() == pytest.approx(1)


def test_collapse() -> None:
    same = torch.ones(5, 3, dtype=torch.float64)
    assert uniformity(same).item() == pytest.approx(0, abs=1e-12)
    assert anisotropy(same).item() == pytest.approx(1)
    assert math.isnan(effective_rank(same).item())


def test_no_pair_has_no_alignment() -> None:
    assert math.isnan(alignment(torch.empty(0, 3), torch.empty(0, 3)).item())


@pytest.mark.parametrize("filler", [0.0, 1.0], ids=["zero rows", "collapsed"])
def test_degenerate_batches_have_finite_gradients(filler: float) -> None:
    for measure in (uniformity, anisotropy, lambda x: alignment(x, x.flip(1))):
        vectors = torch.full((4, 3), filler, requires_grad=True)
        measure(vectors).backward()
        assert vectors.grad is not None and vectors.grad.isfinite().all()


def test_gradients_are_those_of_the_formula() -> None:
    assert torch.autograd.gradcheck(alignment, (leaf(0, 3, 4), leaf(1, 3, 4)))
    for measure in (uniformity, anisotropy, effective_rank):
        assert torch.autograd.gradcheck(measure, (leaf(2, 4, 3),))
