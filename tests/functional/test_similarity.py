import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tertium.functional import cosine_matrix, cosine_pairs
from tests.functional.draws import SEEDS, leaf, normal

SIZES = st.integers(1, 6)


def naive_cosine(u: Tensor, v: Tensor) -> float:
    dot = sum(a * b for a, b in zip(u.tolist(), v.tolist(), strict=True))
    norms = [math.sqrt(sum(x * x for x in w.tolist())) for w in (u, v)]
    return dot / math.prod(norms)


@given(n=SIZES, m=SIZES, d=SIZES, seed=SEEDS)
def test_matrix_equals_a_loop(n: int, m: int, d: int, seed: int) -> None:
    u, v = normal(seed, n, d), normal(seed + 1, m, d)
    expected = [[naive_cosine(u[i], v[j]) for j in range(m)] for i in range(n)]
    assert_close(cosine_matrix(u, v), torch.tensor(expected, dtype=torch.float64))


@given(n=SIZES, d=SIZES, seed=SEEDS)
def test_pairs_are_the_diagonal_of_the_matrix(n: int, d: int, seed: int) -> None:
    u, v = normal(seed, 2, n, d)
    assert_close(cosine_pairs(u, v), cosine_matrix(u, v).diagonal())
    assert_close(cosine_pairs(u, v), cosine_pairs(v, u))


@given(n=SIZES, d=SIZES, seed=SEEDS, scale=st.floats(1e-3, 1e3))
def test_scale_changes_nothing_and_a_sign_flips(n: int, d: int, seed: int, scale: float) -> None:
    u, v = normal(seed, 2, n, d)
    assert_close(cosine_pairs(scale * u, v), cosine_pairs(u, v))
    assert_close(cosine_pairs(-u, v), -cosine_pairs(u, v))


@given(n=SIZES, d=SIZES, seed=SEEDS)
def test_bounds_and_identity(n: int, d: int, seed: int) -> None:
    u, v = normal(seed, 2, n, d)
    assert cosine_matrix(u, v).abs().max() <= 1 + 1e-12
    assert_close(cosine_pairs(u, u), torch.ones(n, dtype=torch.float64))


@given(n=st.integers(2, 6), d=SIZES, seed=SEEDS)
def test_permuting_rows_permutes_the_matrix(n: int, d: int, seed: int) -> None:
    u, v = normal(seed, 2, n, d)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert_close(cosine_matrix(u[order], v[order]), cosine_matrix(u, v)[order][:, order])


def test_a_zero_row_gives_zero_and_finite_gradients() -> None:
    u = torch.zeros(2, 3, requires_grad=True)
    v = torch.ones(2, 3, requires_grad=True)
    value = cosine_pairs(u, v)
    value.sum().backward()
    assert value.tolist() == [0, 0]
    assert u.grad is not None and u.grad.isfinite().all()
    assert v.grad is not None and v.grad.isfinite().all()


@pytest.mark.parametrize("function", [cosine_matrix, cosine_pairs])
def test_gradients_are_those_of_the_formula(function: object) -> None:
    assert torch.autograd.gradcheck(function, (leaf(0, 3, 4), leaf(1, 3, 4)))


def test_widths_must_agree() -> None:
    with pytest.raises(Exception, match="second"):
        cosine_matrix(torch.ones(2, 3), torch.ones(2, 4))
