import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from tertium.functional.attention_mi import (
    MutualInformation,
    Positions,
    attention_layers,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tests.functional.draws import SEEDS, normal

LARGEST = -0.5 * math.log(1e-6)


def weights(seed: int, *shape: int) -> Tensor:
    """Attention as a softmax gives it: positive, rows that sum to 1."""
    return normal(seed, *shape).softmax(dim=-1)


def everywhere(slices: Tensor) -> Positions:
    """All positions of every slice."""
    places = torch.arange(slices.shape[2]).expand(slices.shape)
    return Positions(places, torch.ones_like(places, dtype=torch.bool))


def compared(first: Tensor, second: Tensor, mask: Tensor) -> MutualInformation:
    """Two views' maps at all positions that count."""
    x, y = attention_slices(first), attention_slices(second)
    valid = valid_positions(x, y, mask)
    return mutual_information(x, y, sample_positions(valid, samples=x.shape[2]))


# layers


@pytest.mark.parametrize(
    ("depth", "layers"), [(6, (3, 5)), (12, (7, 11)), (24, (14, 22)), (1, (0, 1)), (2, (0, 2))]
)
def test_layers_scale_with_the_depth(depth: int, layers: tuple[int, int]) -> None:
    assert attention_layers(depth) == range(*layers)


@given(depth=st.integers(1, 100))
def test_layers_stay_inside(depth: int) -> None:
    found = attention_layers(depth)
    assert 0 <= found.start < found.stop <= depth
    assert len(found) >= min(2, depth)


# slices


@given(
    layers=st.integers(1, 5),
    n=st.integers(1, 3),
    heads=st.integers(1, 5),
    t=st.integers(1, 4),
    seed=SEEDS,
)
def test_slices_of_adjacent_heads_equal_a_loop(
    layers: int, n: int, heads: int, t: int, seed: int
) -> None:
    attention = weights(seed, layers, n, heads, t, t)
    found = attention_slices(attention)
    for sentence in range(n):
        expected = []
        for layer in range(layers):
            for head in range(0, heads, 2):
                pair = attention[layer, sentence, head : head + 2].flatten()
                expected.append(pad(pair, (0, 2 * t * t - len(pair))))  # an odd last head is alone
        assert_close(found[sentence], torch.stack(expected), rtol=0, atol=0)


@given(
    layers=st.integers(1, 5),
    n=st.integers(1, 3),
    heads=st.integers(1, 4),
    t=st.integers(1, 4),
    seed=SEEDS,
)
def test_slices_of_every_second_layer_equal_a_loop(
    layers: int, n: int, heads: int, t: int, seed: int
) -> None:
    attention = weights(seed, layers, n, heads, t, t)
    found = attention_slices(attention, pool="layers")
    assert found.shape == (n, 2 * heads, (layers + 1) // 2 * t * t)
    for sentence in range(n):
        for head in range(heads):
            for start in (0, 1):
                parts = [attention[at, sentence, head].flatten() for at in range(start, layers, 2)]
                joined = torch.cat([*parts, torch.zeros(0, dtype=torch.float64)])
                expected = pad(joined, (0, found.shape[2] - len(joined)))
                assert_close(found[sentence, 2 * head + start], expected, rtol=0, atol=0)


def test_an_odd_last_head_is_compared_alone() -> None:
    first, second = weights(0, 2, 2, 1, 3, 5, 5)
    mask = torch.ones(1, 5, dtype=torch.long)
    whole = compared(first, second, mask)
    assert whole.kept.shape == (1, 4) and whole.kept.all()
    alone = compared(first[:, :, 2:], second[:, :, 2:], mask)
    assert_close(whole.information[:, 1::2], alone.information)


# what counts


@given(
    n=st.integers(1, 3), t=st.integers(1, 5), maps=st.integers(1, 3), seed=SEEDS, zero=st.booleans()
)
def test_valid_positions_equal_a_loop(n: int, t: int, maps: int, seed: int, zero: bool) -> None:
    first, second = weights(seed, 2, n, 2, maps * t * t)
    if zero:  # attention may underflow in one view alone
        first[:, 0, ::3] = 0
        second[:, 1, 1::3] = 0
    lengths = torch.randint(1, t + 1, (n,), generator=torch.Generator().manual_seed(seed))
    mask = (torch.arange(t) < lengths[:, None]).long()
    found = valid_positions(first, second, mask)
    padding_too = valid_positions(first, second, mask, count_padding_queries=True)
    for i in range(n):
        for r in range(2):
            for at in range(maps * t * t):
                query, key = at % (t * t) // t, at % t
                seen = bool(first[i, r, at] > 0) and bool(second[i, r, at] > 0)
                assert found[i, r, at] == (seen and bool(mask[i, query]) and bool(mask[i, key]))
                assert padding_too[i, r, at] == seen


# sampling


def random_valid(seed: int, share: float, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < share


@given(
    seed=SEEDS,
    share=st.floats(0, 1),
    samples=st.integers(2, 40),
    short=st.sampled_from(["use", "discard"]),
)
def test_only_valid_positions_are_drawn_and_each_once(
    seed: int, share: float, samples: int, short: str
) -> None:
    valid = random_valid(seed, share, 2, 3, 30)
    found = sample_positions(valid, samples=samples, short_slices=short)
    for i in range(2):
        for r in range(3):
            drawn = found.indices[i, r][found.used[i, r]].tolist()
            assert len(set(drawn)) == len(drawn) <= samples
            assert valid[i, r][drawn].all()


@given(seed=SEEDS, share=st.floats(0, 1), samples=st.integers(2, 40))
def test_short_slices_are_used_from_eight_on(seed: int, share: float, samples: int) -> None:
    valid = random_valid(seed, share, 2, 4, 30)
    counts = valid.sum(dim=2)
    used = sample_positions(valid, samples=samples).used.sum(dim=2)
    assert torch.equal(used, counts.clamp(max=samples) * (counts >= 8))


@given(seed=SEEDS, share=st.floats(0, 1), samples=st.integers(2, 30))
def test_short_slices_are_discarded_if_one_is_long_enough(
    seed: int, share: float, samples: int
) -> None:
    valid = random_valid(seed, share, 2, 4, 30)
    counts = valid.sum(dim=2)
    used = sample_positions(valid, samples=samples, short_slices="discard").used.sum(dim=2)
    if (counts >= samples).any():
        assert torch.equal(used, samples * (counts >= samples))
    else:
        assert torch.equal(used, counts.min().expand_as(used))


def test_the_least_that_is_used_is_eight() -> None:
    valid = torch.arange(20) < torch.tensor([7, 8])[:, None]
    used = sample_positions(valid[None], samples=150).used.sum(dim=2)
    assert used.tolist() == [[0, 8]]


def test_draws_are_uniform_and_never_of_padding_or_zeros() -> None:
    attention = weights(0, 1, 1, 2, 6, 6)
    attention[..., 5] = 0  # a padded key
    first, second = attention_slices(attention), attention_slices(attention.clone())
    second[0, 0, 8] = 0
    mask = torch.tensor([[1, 1, 1, 1, 1, 0]])
    valid = valid_positions(first, second, mask)
    assert int(valid.sum()) == 2 * 25 - 1
    rows = 10_000  # of ten positions each
    generator = torch.Generator().manual_seed(0)
    found = sample_positions(valid.expand(rows, 1, 72), samples=10, generator=generator)
    assert found.used.all() and found.indices.numel() == 100_000
    times = found.indices.flatten().bincount(minlength=72)
    assert not times[~valid[0, 0]].any()
    expected = 100_000 / 49
    # Six standard deviations of a count, for all 49 at once.
    assert (times[valid[0, 0]] - expected).abs().max() < 6 * math.sqrt(expected)


def test_the_generator_chooses_the_positions() -> None:
    valid = torch.ones(2, 3, 50, dtype=torch.bool)
    before = torch.random.get_rng_state()
    one, same, other = (
        sample_positions(valid, samples=9, generator=torch.Generator().manual_seed(seed)).indices
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len({tuple(slice_.tolist()) for slice_ in one.flatten(0, 1)}) == 6


# mutual information


@given(n=st.integers(1, 3), r=st.integers(1, 3), m=st.integers(2, 30), seed=SEEDS)
def test_correlation_is_numpys_of_the_logarithms(n: int, r: int, m: int, seed: int) -> None:
    first, second = weights(seed, 2, n, r, m + 5)
    generator = torch.Generator().manual_seed(seed)
    found_at = torch.stack(
        [torch.randperm(m + 5, generator=generator)[:m] for _ in range(n * r)]
    ).reshape(n, r, m)
    used = torch.rand(n, r, m, generator=generator) < 0.8
    used[..., :2] = True
    found = mutual_information(first, second, Positions(found_at, used))
    for i in range(n):
        for s in range(r):
            here = found_at[i, s][used[i, s]]
            logs = [np.log(side[i, s, here].numpy()) for side in (first, second)]
            rho = float(np.corrcoef(*logs)[0, 1])
            assert_close(found.correlation[i, s].item(), rho, rtol=1e-7, atol=1e-9)
            rest = max(1 - rho**2, 1e-6)
            assert_close(found.information[i, s].item(), -0.5 * math.log(rest), atol=1e-6, rtol=0)
    assert found.kept.all()


@given(n=st.integers(1, 3), r=st.integers(1, 3), e=st.integers(2, 30), seed=SEEDS)
def test_information_is_bounded_and_symmetric(n: int, r: int, e: int, seed: int) -> None:
    first, second = weights(seed, 2, n, r, e)
    found = mutual_information(first, second, everywhere(first))
    assert (found.information >= 0).all() and (found.information <= LARGEST + 1e-9).all()
    swapped = mutual_information(second, first, everywhere(first))
    assert_close(found.information, swapped.information)


@given(seed=SEEDS, factor=st.floats(0.01, 100), power=st.floats(0.1, 3))
def test_a_monotone_power_of_a_view_says_the_same(seed: int, factor: float, power: float) -> None:
    first, second = weights(seed, 2, 1, 2, 40)
    found = mutual_information(first, second, everywhere(first)).information
    moved = mutual_information(factor * first**power, second, everywhere(first)).information
    assert_close(moved, found, rtol=1e-6, atol=1e-9)


@given(seed=SEEDS, extra=st.integers(1, 4))
def test_padding_and_the_order_of_sentences_change_nothing(seed: int, extra: int) -> None:
    first, second = weights(seed, 2, 2, 3, 2, 6, 6)
    mask = (torch.arange(6) < torch.tensor([6, 4, 3])[:, None]).long()
    found = compared(first, second, mask)
    wider = [pad(side, (0, extra, 0, extra), value=0.5) for side in (first, second)]
    padded = compared(*wider, pad(mask, (0, extra)))
    assert torch.equal(padded.kept, found.kept)
    assert_close(padded.information, found.information)
    # What a padded token attends to, or how much it gets, does not matter.
    noisy = [side + (1 - mask)[None, :, None, :, None] * 0.3 for side in (first, second)]
    noisy = [side + (1 - mask)[None, :, None, None, :] * 0.7 for side in noisy]
    assert_close(compared(*noisy, mask).information, found.information)
    order = torch.randperm(3, generator=torch.Generator().manual_seed(seed))
    moved = compared(first[:, order], second[:, order], mask[order])
    assert_close(moved.information, found.information[order])


def test_a_sentence_of_one_token_does_not_count() -> None:
    first, second = weights(0, 2, 2, 2, 2, 5, 5)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    found = compared(first, second, mask)
    assert found.kept.tolist() == [[True, True], [False, False]]
    assert not found.information[1].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_identical_and_opposite_views_are_finite(sign: int, dtype: torch.dtype) -> None:
    logs = normal(0, 2, 3, 30).to(dtype)
    first = logs.exp().requires_grad_()
    second = (sign * logs).exp().requires_grad_()
    found = mutual_information(first, second, everywhere(first))
    assert_close(found.correlation, torch.full((2, 3), float(sign), dtype=dtype))
    assert_close(found.information, torch.full((2, 3), LARGEST, dtype=dtype))
    found.information.sum().backward()
    for side in (first, second):
        assert side.grad is not None and side.grad.isfinite().all()


def test_half_precision_is_compared_in_float32() -> None:
    logs = normal(0, 2, 3, 150)
    views = [(logs + 0.05 * normal(seed, 2, 3, 150)).exp() for seed in (1, 2)]
    first, second = (view.bfloat16().requires_grad_() for view in views)
    found = mutual_information(first, second, everywhere(first))
    whole = mutual_information(*views, everywhere(views[0]))
    assert_close(found.information.double(), whole.information, atol=0.02, rtol=0.0)
    found.information.sum().backward()
    assert first.grad is not None and first.grad.count_nonzero() > 800


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("both", [True, False])
def test_constant_slices_know_nothing(both: bool, dtype: torch.dtype) -> None:
    first = torch.full((1, 2, 20), 0.05, dtype=dtype, requires_grad=True)
    varied = weights(0, 1, 2, 20).to(dtype).requires_grad_()
    second = first.detach().clone().requires_grad_() if both else varied
    found = mutual_information(first, second, everywhere(first))
    assert_close(found.information, torch.zeros(1, 2, dtype=dtype), atol=1e-6, rtol=0)
    found.information.sum().backward()
    for side in (first, second):
        assert side.grad is not None and side.grad.isfinite().all()


def test_exact_zeros_outside_the_sample_do_not_spoil_gradients() -> None:
    first = weights(0, 1, 1, 20).requires_grad_()
    zeros = torch.zeros(1, 1, 20, dtype=torch.float64, requires_grad=True)
    none = Positions(torch.zeros(1, 1, 5, dtype=torch.long), torch.zeros(1, 1, 5).bool())
    found = mutual_information(first, zeros, none)
    assert not found.kept.any() and not found.information.any()
    found.information.sum().backward()
    for side in (first, zeros):
        assert side.grad is not None and not side.grad.any()


def test_gradients_are_those_of_the_formula() -> None:
    first, second = (weights(seed, 2, 2, 12).requires_grad_() for seed in (0, 1))
    valid = torch.ones(2, 2, 12, dtype=torch.bool)
    valid[0, 0, :3] = False
    generator = torch.Generator().manual_seed(0)
    positions = sample_positions(valid, samples=10, generator=generator)
    assert not positions.used.all()

    def information(x: Tensor, y: Tensor) -> Tensor:
        return mutual_information(x, y, positions).information

    assert torch.autograd.gradcheck(information, (first, second))
