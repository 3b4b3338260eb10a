from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from tertium.functional import attention_rollout, received_attention
from tests.functional.draws import SEEDS, normal

Score = Callable[..., Tensor]
SCORES = pytest.mark.parametrize("score", [received_attention, attention_rollout])


def masked_attention(seed: int, lengths: list[int], *, layers: int, heads: int) -> Tensor:
    """Weights as a softmax over real keys gives them; padding asks too, as it does in a model."""
    mask = real(lengths)
    width = mask.shape[1]
    logits = normal(seed, layers, len(lengths), heads, width, width)
    return logits.masked_fill(mask[None, :, None, None, :] == 0, -torch.inf).softmax(dim=-1)


def real(lengths: list[int]) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def further(attention: Tensor, mask: Tensor, extra: int) -> tuple[Tensor, Tensor]:
    """The same batch with more padding: new keys get nothing, new queries ask all real tokens."""
    wide = pad(attention, (0, extra, 0, extra))
    wide[..., -extra:, :] = pad(mask / mask.sum(1, keepdim=True), (0, extra))[:, None, None]
    return wide, pad(mask, (0, extra))


def naive_loop(attention: Tensor, length: int, *, last: bool, padding: bool) -> list[float]:
    """``a[s] = sum over l, h, q of A[l, h, q, s]``."""
    layers, heads, width, _ = attention.shape
    queries = range(width if padding else length)
    chosen = range(layers - 1 if last else 0, layers)
    return [
        sum(float(attention[x, h, q, s]) for x in chosen for h in range(heads) for q in queries)
        for s in range(length)
    ]


def rollout_loop(attention: Tensor, length: int, *, last: bool, padding: bool) -> list[float]:
    """Mean over heads, plus identity, rows to 1, each layer times all below, summed."""
    heads, width = attention.shape[1], attention.shape[2]
    cells = range(width)
    joint: list[list[float]] = []
    total = [[0.0] * width for _ in cells]
    for layer in attention:
        plain = [
            [sum(float(layer[h, q, s]) for h in range(heads)) / heads + (q == s) for s in cells]
            for q in cells
        ]
        rows = [[value / sum(row) for value in row] for row in plain]
        joint = (
            [[sum(rows[q][m] * joint[m][s] for m in cells) for s in cells] for q in cells]
            if joint
            else rows
        )
        total = joint if last else [[total[q][s] + joint[q][s] for s in cells] for q in cells]
    return [sum(total[q][s] for q in range(width if padding else length)) for s in range(length)]


@pytest.mark.parametrize(
    ("score", "loop"), [(received_attention, naive_loop), (attention_rollout, rollout_loop)]
)
@given(
    seed=SEEDS,
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    layers=st.integers(1, 3),
    heads=st.integers(1, 2),
    last=st.booleans(),
    padding=st.booleans(),
)
def test_equals_a_loop(
    score: Score,
    loop: Callable[..., list[float]],
    seed: int,
    lengths: list[int],
    layers: int,
    heads: int,
    last: bool,
    padding: bool,
) -> None:
    attention = masked_attention(seed, lengths, layers=layers, heads=heads)
    found = score(
        attention, real(lengths), last_layer_only=last, count_padding_queries=padding
    ).tolist()
    for row, length in enumerate(lengths):
        expected = loop(attention[:, row], length, last=last, padding=padding)
        assert found[row][:length] == pytest.approx(expected)
        assert found[row][length:] == [torch.inf] * (max(lengths) - length)


@SCORES
@given(
    seed=SEEDS,
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    extra=st.integers(1, 4),
    last=st.booleans(),
)
def test_padding_a_batch_further_changes_nothing(
    score: Score, seed: int, lengths: list[int], extra: int, last: bool
) -> None:
    attention, mask = masked_attention(seed, lengths, layers=3, heads=2), real(lengths)
    wide, wide_mask = further(attention, mask, extra)
    plain = score(attention, mask, last_layer_only=last)
    assert_close(score(wide, wide_mask, last_layer_only=last)[:, : mask.shape[1]], plain)


@SCORES
def test_with_padding_queries_it_changes(score: Score) -> None:
    attention, mask = masked_attention(0, [3, 2], layers=2, heads=2), real([3, 2])
    wide, wide_mask = further(attention, mask, 2)
    plain = score(attention, mask, count_padding_queries=True)
    padded = score(wide, wide_mask, count_padding_queries=True)[:, :3]
    filled = mask.bool()
    assert (padded[filled] > plain[filled] + 0.1).all()
    assert (plain[1, :2] > score(attention, mask)[1, :2]).all()  # the batch had padding before


@SCORES
def test_what_real_queries_give_away_is_received(score: Score) -> None:
    lengths, layers, heads = [4, 2], 3, 2
    found = score(masked_attention(1, lengths, layers=layers, heads=heads), real(lengths))
    per_query = layers * heads if score is received_attention else layers
    for row, length in zip(found, lengths, strict=True):
        assert_close(row[:length].sum().item(), float(per_query * length))


@SCORES
def test_a_token_that_everyone_looks_at_scores_highest(score: Score) -> None:
    attention = torch.zeros(2, 1, 1, 4, 4)
    attention[..., 2] = 1.0
    found = score(attention, torch.ones(1, 4, dtype=torch.long))
    assert found[0].argmax() == 2
