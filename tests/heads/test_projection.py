import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tertium.heads import Projection
from tests.functional.draws import SEEDS, normal


@given(n=st.integers(1, 4), d=st.integers(1, 5), seed=SEEDS)
def test_equals_a_loop(n: int, d: int, seed: int) -> None:
    rows = normal(seed, n, d)
    head = Projection(dimension=d, seed=seed, spread=0.5).double()
    torch.nn.init.normal_(head.dense.bias)
    found = head(rows)
    for i in range(n):
        for j in range(d):
            weights = head.dense.weight[j].tolist()
            total = sum(w * x for w, x in zip(weights, rows[i].tolist(), strict=True))
            assert_close(found[i, j].item(), math.tanh(total + head.dense.bias[j].item()))


def test_fresh_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    one = Projection(dimension=64, seed=5)
    torch.manual_seed(2)
    same, other = Projection(dimension=64, seed=5), Projection(dimension=64, seed=6)
    assert torch.equal(one.dense.weight, same.dense.weight)
    assert not torch.equal(one.dense.weight, other.dense.weight)
    assert not one.dense.bias.any()
    assert abs(one.dense.weight.std().item() - 0.02) < 0.002
    assert abs(Projection(dimension=64, spread=0.3).dense.weight.std().item() - 0.3) < 0.03
