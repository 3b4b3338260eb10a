import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from tertium.errors import TertiumError, TertiumWarning
from tertium.functional.attention_mi import (
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tertium.objectives import OBJECTIVES, InfoNCE
from tertium.objectives.attention_mi import AttentionMI, aligned_attention
from tertium.types import Encoded, ViewPair

LARGEST = -0.5 * math.log(1e-6)
SEEDS = st.integers(0, 2**31)
EVERY = 10_000  # more samples than there are positions


def maps(seed: int, mask: Tensor, *, layers: int = 2, heads: int = 4) -> Tensor:
    """Attention weights before dropout: rows sum to 1, padded keys get exactly 0."""
    n, t = mask.shape
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(layers, n, heads, t, t, dtype=torch.float64, generator=generator)
    return scores.masked_fill(mask[None, :, None, None, :] == 0, -torch.inf).softmax(dim=-1)


def masked(*lengths: int) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def encoded(attention: Tensor | None, mask: Tensor) -> Encoded:
    n, t = mask.shape
    return Encoded(torch.zeros(n, 3), torch.zeros(n, t, 3), mask, attention)


def views(first: Tensor, second: Tensor, mask: Tensor) -> ViewPair:
    return ViewPair(encoded(first, mask), encoded(second, mask))


def pair(seed: int, *lengths: int, **shape: int) -> ViewPair:
    mask = masked(*lengths)
    return views(maps(seed, mask, **shape), maps(seed + 1, mask, **shape), mask)


def values(found: ViewPair, **settings: Any) -> Tensor:
    return AttentionMI(**settings).terms(found)["attention_mi"].value


def correlation(first: Tensor, second: Tensor) -> float:
    x, y = (side.log() - side.log().mean() for side in (first, second))
    return float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())


# the term


@given(seed=SEEDS, lengths=st.lists(st.integers(2, 6), min_size=1, max_size=3))
def test_equals_a_loop(seed: int, lengths: list[int]) -> None:
    found = pair(seed, *lengths)
    expected = []
    assert found.first.attention is not None and found.second.attention is not None
    for i, length in enumerate(lengths):
        for layer in range(2):
            for head in (0, 2):
                place = (layer, i, slice(head, head + 2), slice(length), slice(length))
                sides = [v.attention[place].flatten() for v in (found.first, found.second)]
                rest = 1 - correlation(*sides) ** 2
                expected.append(0.5 * math.log(max(rest, 1e-6)))
    assert_close(values(found, samples=EVERY).tolist(), expected, rtol=1e-6, atol=1e-9)


@given(seed=SEEDS, pool=st.sampled_from(["heads", "layers"]), heads=st.integers(1, 5))
def test_sign_and_symmetry(seed: int, pool: str, heads: int) -> None:
    found = pair(seed, 6, 5, heads=heads)
    swapped = ViewPair(found.second, found.first)
    whole = values(found, samples=EVERY, pool=pool)
    assert (whole <= 0).all() and (whole >= -LARGEST - 1e-9).all()
    assert_close(values(swapped, samples=EVERY, pool=pool), whole)
    assert (values(found, samples=20, pool=pool) <= 0).all()


@given(seed=SEEDS, extra=st.integers(1, 3))
def test_more_padding_changes_nothing(seed: int, extra: int) -> None:
    found = pair(seed, 6, 4)
    sides = []
    for side in (found.first, found.second):
        assert side.attention is not None
        sides.append(pad(side.attention, (0, extra, 0, extra)))
    wider = views(*sides, pad(found.first.mask, (0, extra)))
    assert_close(values(wider, samples=EVERY), values(found, samples=EVERY))


def test_identical_views_share_all_and_have_finite_gradients() -> None:
    mask = masked(6, 5)
    first, second = (maps(0, mask).requires_grad_() for _ in range(2))
    # A sample says so too: its positions are the same in both views.
    term = AttentionMI(samples=20)(views(first, second, mask))["attention_mi"]
    assert term.item() == pytest.approx(-LARGEST)
    term.backward()
    for side in (first, second):
        assert side.grad is not None and side.grad.isfinite().all()


def test_gradients_reach_both_views_and_no_padding() -> None:
    mask = masked(6, 4)
    first, second = (maps(seed, mask).requires_grad_() for seed in (0, 1))
    AttentionMI(samples=20)(views(first, second, mask))["attention_mi"].backward()
    for side in (first, second):
        assert side.grad is not None and side.grad.isfinite().all()
        assert side.grad[:, 0].any() and side.grad[:, 1].any()
        assert not side.grad[:, 1, :, 4:].any() and not side.grad[:, 1, :, :, 4:].any()


def test_short_sentences_do_not_count() -> None:
    long, both = pair(0, 6), pair(0, 6, 1)
    for side, other in zip((both.first, both.second), (long.first, long.second), strict=True):
        assert side.attention is not None and other.attention is not None
        side.attention[:, :1] = other.attention
    assert_close(values(both, samples=EVERY), values(long, samples=EVERY))


@pytest.mark.parametrize("short_slices", ["use", "discard"])
@pytest.mark.parametrize("scale", ["none", "valid_ratio"])
def test_nothing_to_compare_is_zero_with_a_warning(short_slices: str, scale: str) -> None:
    found = pair(0, 1, 1)
    for side in (found.first, found.second):
        assert side.attention is not None
        if short_slices == "discard":  # which would take what little there is
            side.attention.zero_()
        side.attention.requires_grad_()
    objective = AttentionMI(short_slices=short_slices, scale=scale)
    with pytest.warns(TertiumWarning, match="long enough to compare attention: the term is 0"):
        term = objective(found)["attention_mi"]
    assert term.item() == 0
    term.backward()  # the only objective of a stage may meet such a batch
    assert found.first.attention is not None and found.first.attention.grad is not None
    assert not found.first.attention.grad.any()


def test_nobody_is_warned_without_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AttentionMI()(pair(0, 6, 1))


# settings


def test_the_same_seed_draws_the_same_positions() -> None:
    found, results = pair(0, 6, 6), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        results.append(values(found, samples=10))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize("pool", ["heads", "layers"])
def test_the_pools_are_those_of_the_formula(pool: str) -> None:
    found = pair(0, 6, 5, layers=4)
    assert found.first.attention is not None and found.second.attention is not None
    x, y = (attention_slices(v.attention, pool=pool) for v in (found.first, found.second))
    positions = sample_positions(valid_positions(x, y, found.first.mask), samples=EVERY)
    expected = mutual_information(x, y, positions).information.flatten()
    assert_close(values(found, samples=EVERY, pool=pool), -expected)


def test_short_slices_are_used_or_discarded() -> None:
    found = pair(0, 6, 4)  # 72 and 32 positions a slice
    assert values(found, samples=40).shape == (8,)
    assert values(found, samples=40, short_slices="discard").shape == (4,)
    assert values(found, samples=80, short_slices="discard").shape == (8,)


def test_the_share_of_valid_positions_scales() -> None:
    found = pair(0, 6, 3)
    plain, scaled = (values(found, samples=EVERY, scale=scale) for scale in ("none", "valid_ratio"))
    share = (36 + 9) / (36 + 36)
    assert_close(scaled, plain * (share**2 + 1e-6))
    kept = {"samples": 72, "short_slices": "discard"}  # the share is that of slices that count
    assert_close(values(found, scale="valid_ratio", **kept), values(found, **kept) * (1 + 1e-6))


def test_rows_of_padding_count_where_the_authors_count_them() -> None:
    found = pair(0, 6, 3)
    plain, whole = (
        values(found, samples=EVERY, count_padding_queries=counted) for counted in (False, True)
    )
    assert_close(whole[:4], plain[:4])
    assert not torch.isclose(whole[4:], plain[4:]).any()


def test_it_is_registered_and_asks_for_upper_layers() -> None:
    assert OBJECTIVES["attention_mi"] is AttentionMI
    assert AttentionMI().attention_layers(12) == range(7, 11)
    assert list(InfoNCE().attention_layers(12)) == []
    assert not AttentionMI.in_batch and not AttentionMI.two_encoders


def test_mistakes() -> None:
    with pytest.raises(TertiumError, match="samples must be at least 2, got 1"):
        AttentionMI(samples=1)
    mask = masked(4)
    without = ViewPair(encoded(maps(0, mask), mask), encoded(None, mask))
    with pytest.raises(TertiumError, match="needs the attention of both views"):
        AttentionMI()(without)


# views of different tokens


def drawn_sources(seed: int, lengths: list[int], width: int) -> tuple[Tensor, Tensor]:
    """Some tokens of each sentence in order, as :func:`resample` tells them."""
    generator = torch.Generator().manual_seed(seed)
    rows, kept_lengths = [], []
    for length in lengths:
        kept = torch.rand(length, generator=generator) < 0.6
        kept[0] = True
        places = kept.nonzero().flatten()
        rows.append(pad(places, (0, width - len(places)), value=width - 1))
        kept_lengths.append(len(places))
    return torch.stack(rows), (torch.arange(width) < torch.tensor(kept_lengths)[:, None]).long()


@given(seed=SEEDS, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_aligned_attention_equals_a_loop(seed: int, lengths: list[int]) -> None:
    mask = masked(*lengths)
    attention = maps(seed, mask)
    sources, kept = drawn_sources(seed, lengths, mask.shape[1])
    found = aligned_attention(attention, sources, kept)
    for layer in range(2):
        for i in range(len(lengths)):
            places = sources[i][kept[i].bool()].tolist()
            for head in range(4):
                for at, query in enumerate(places):
                    row = attention[layer, i, head, query]
                    total = sum(float(row[key]) for key in places)
                    expected = [float(row[key]) / total for key in places]
                    rest = [0.0] * (mask.shape[1] - len(places))
                    assert_close(found[layer, i, head, at].tolist(), expected + rest)
    real = kept[None, :, None, :].expand(found.shape[:-1]).bool()
    assert_close(found.sum(dim=-1)[real], torch.ones(int(real.sum()), dtype=torch.float64))


def test_nothing_moved_means_nothing_changes() -> None:
    mask = masked(5, 3)
    attention = maps(0, mask)
    still = torch.arange(5).expand(2, 5)
    found = aligned_attention(attention, still, mask)
    real = mask[None, :, None, :, None].bool()
    assert_close(found * real, attention * real)


def test_an_empty_row_is_zero_with_finite_gradients() -> None:
    attention = maps(0, masked(4, 4)).float().requires_grad_()
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]])
    found = aligned_attention(attention, torch.zeros(2, 4, dtype=torch.long), mask)
    assert not found[:, 1].any()
    found.square().sum().backward()
    assert attention.grad is not None and attention.grad.isfinite().all()


@given(seed=SEEDS)
def test_only_tokens_that_both_views_kept_are_compared(seed: int) -> None:
    lengths = [6, 5]
    mask = masked(*lengths)
    sources, kept = drawn_sources(seed, lengths, 6)
    kept[:, :3], sources[:, :3] = 1, torch.arange(3)  # enough of them to count
    first, second = maps(seed, mask), maps(seed + 1, kept)
    found = values(
        ViewPair(encoded(first, mask), encoded(second, kept), sources=sources), samples=EVERY
    )
    aligned = aligned_attention(first, sources, kept)
    assert_close(found, values(views(aligned, second, kept), samples=EVERY))
    # What the first view gives to tokens that are gone does not matter.
    gone = torch.ones(2, 6, dtype=torch.bool).scatter(1, sources, value=False) & mask.bool()
    other = first + gone[None, :, None, None, :] * 0.5
    changed = ViewPair(encoded(other, mask), encoded(second, kept), sources=sources)
    assert_close(values(changed, samples=EVERY), found)


def test_the_same_attention_through_fewer_tokens_is_all_shared() -> None:
    mask = masked(6)
    first = maps(0, mask)
    sources, kept = torch.tensor([[0, 2, 3, 5, 5, 5]]), torch.tensor([[1, 1, 1, 1, 0, 0]])
    second = aligned_attention(first, sources, kept)
    found = ViewPair(encoded(first, mask), encoded(second, kept), sources=sources)
    assert_close(values(found), torch.full((4,), -LARGEST, dtype=torch.float64))


@pytest.mark.parametrize("moved", [False, True])
def test_fewer_anchors_are_compared_with_their_own_rows(moved: bool) -> None:
    mask = masked(6, 5, 4, 6)
    first, second = maps(0, mask), maps(1, mask)
    sources = torch.arange(6).expand(4, 6) if moved else None
    whole = ViewPair(encoded(first[:, ::2], mask[::2]), encoded(second, mask), sources=sources)
    alone = views(first[:, ::2], second[:, ::2], mask[::2])
    assert_close(values(whole, samples=EVERY), values(alone, samples=EVERY))


def test_layers_are_the_upper_ones_or_those_named() -> None:
    assert AttentionMI().attention_layers(12) == range(7, 11)
    assert AttentionMI(layers="8:12").attention_layers(12) == range(8, 12)
    with pytest.raises(TertiumError, match="layers 8:12, but the model has only 6"):
        AttentionMI(layers="8:12").attention_layers(6)


@pytest.mark.parametrize("layers", ["8", "12:8", "3:3", "a:b", "-1:2"])
def test_layers_that_are_no_range_are_refused(layers: str) -> None:
    with pytest.raises(TertiumError, match="a slice such as 7:11"):
        AttentionMI(layers=layers)
