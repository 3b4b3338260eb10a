import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tertium.functional import pool
from tertium.functional.pooling import masked_mean
from tertium.types import Pooling
from tests.functional.draws import SEEDS, leaf, normal

LAYERS = 4


def a_mask(seed: int, n: int, t: int) -> Tensor:
    """One real token at least, padding on the right."""
    lengths = torch.randint(1, t + 1, (n,), generator=torch.Generator().manual_seed(seed))
    return (torch.arange(t) < lengths[:, None]).long()


def naive_pool(states: list[Tensor], mask: Tensor, pooling: Pooling) -> Tensor:
    """In words: which layers, then which tokens."""
    mixes = {
        Pooling.MEAN: [-1],
        Pooling.MEAN_FIRST_LAST: [1, -1],
        Pooling.MEAN_EMBEDDING_LAST: [0, -1],
        Pooling.MEAN_TOP2: [-2, -1],
    }
    rows = []
    for i in range(len(mask)):
        real = [t for t in range(mask.shape[1]) if mask[i, t]]
        if pooling not in mixes:
            rows.append(states[-1][i, real[-1] if pooling is Pooling.LAST else 0])
            continue
        vectors = [states[layer][i, t] for layer in mixes[pooling] for t in real]
        rows.append(sum(vectors, start=torch.zeros_like(vectors[0])) / len(vectors))
    return torch.stack(rows)


@pytest.mark.parametrize("pooling", Pooling)
@given(n=st.integers(1, 4), t=st.integers(1, 5), seed=SEEDS)
def test_equals_a_loop(pooling: Pooling, n: int, t: int, seed: int) -> None:
    states = list(normal(seed, LAYERS + 1, n, t, 3))
    mask = a_mask(seed, n, t)
    assert_close(pool(states, mask, pooling), naive_pool(states, mask, pooling))


@pytest.mark.parametrize("pooling", Pooling)
@given(seed=SEEDS, extra=st.integers(1, 4))
def test_padding_changes_nothing(pooling: Pooling, seed: int, extra: int) -> None:
    states, mask = normal(seed, LAYERS + 1, 3, 4, 2), a_mask(seed, 3, 4)
    rubbish = 1e6 * normal(seed + 1, LAYERS + 1, 3, extra, 2)
    padded = torch.cat([states, rubbish], dim=2)
    wider = torch.nn.functional.pad(mask, (0, extra))
    assert_close(pool(list(padded), wider, pooling), pool(list(states), mask, pooling))


@given(seed=SEEDS)
def test_a_mean_lies_within_its_tokens(seed: int) -> None:
    tokens, mask = normal(seed, 3, 5, 2), a_mask(seed, 3, 5)
    mean = masked_mean(tokens, mask)
    for row, vectors, real in zip(mean, tokens, mask.bool(), strict=True):
        assert (row >= vectors[real].amin(0) - 1e-12).all()
        assert (row <= vectors[real].amax(0) + 1e-12).all()


def test_a_text_without_tokens_gives_zero_and_finite_gradients() -> None:
    tokens = leaf(0, 2, 3, 2)
    mean = masked_mean(tokens, torch.zeros(2, 3, dtype=torch.long))
    mean.sum().backward()
    assert not mean.any()
    assert tokens.grad is not None and tokens.grad.isfinite().all()


def test_gradients_are_those_of_the_formula_and_none_reaches_padding() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    tokens = leaf(0, 2, 3, 2)
    assert torch.autograd.gradcheck(lambda x: masked_mean(x, mask), (tokens,))
    masked_mean(tokens, mask).square().sum().backward()
    assert tokens.grad is not None
    assert not tokens.grad[mask == 0].any()
    assert tokens.grad[mask == 1].all()
