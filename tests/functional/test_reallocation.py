import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tertium.functional.reallocation import (
    PADDING,
    augment_states,
    condition_weights,
    displaced_condition,
    reweighting,
)

SIZES = {
    "sentences": st.integers(1, 6),
    "condition": st.integers(0, 4),
    "padding": st.integers(0, 3),
}


def drawn(sentences: int, condition: int, padding: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Attention of two heads over a row of segments; padded keys get none."""
    segments = torch.tensor([[0] * sentences + [1] * condition + [PADDING] * padding])
    t = segments.shape[1]
    logits = torch.randn(
        1, 2, t, t, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    logits = logits.masked_fill((segments == PADDING)[:, None, None], -torch.inf)
    return logits.softmax(dim=-1), segments


@given(**SIZES, seed=st.integers(0, 999))
def test_rows_sum_to_1_within_a_segment_and_are_0_across(
    sentences: int, condition: int, padding: int, seed: int
) -> None:
    attention, segments = drawn(sentences, condition, padding, seed)
    weights = reweighting(attention, segments)
    same = segments[:, :, None] == segments[:, None, :]
    real = (segments != PADDING)[0]
    assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert (weights.masked_select(~same[:, None]) == 0).all()
    most = weights.max(dim=-1).values
    least = weights.masked_fill(weights == 0, 1.0).min(dim=-1).values
    assert (most <= math.e * least * (1 + 1e-9)).all()
    identity = torch.eye(len(real), dtype=torch.float64)[~real]
    assert_close(weights[0, 0][~real], identity)


@given(**SIZES, seed=st.integers(0, 999))
def test_it_is_the_papers_two_products(
    sentences: int, condition: int, padding: int, seed: int
) -> None:
    attention, segments = drawn(sentences, condition, padding, seed)
    weights = reweighting(attention, segments)
    s, c = slice(0, sentences), slice(sentences, sentences + condition)
    for head in range(2):
        a = attention[0, head]
        assert_close(weights[0, head, s, s], (a[s, c] @ a[c, s]).softmax(dim=-1))
        assert_close(weights[0, head, c, c], (a[c, s] @ a[s, c]).softmax(dim=-1))


def test_without_a_condition_all_tokens_weigh_the_same() -> None:
    attention, segments = drawn(4, 0, 2)
    weights = reweighting(attention, segments)
    assert_close(weights[0, 0, :4, :4], torch.full((4, 4), 0.25, dtype=torch.float64))


def test_a_low_temperature_makes_the_weights_sharper() -> None:
    attention, segments = drawn(5, 3, 0)
    flat, sharp = (reweighting(attention, segments, temperature=t) for t in (1.0, 0.01))
    assert sharp.max() > flat.max()


def test_augmented_states_are_every_heads_side_by_side() -> None:
    attention, segments = drawn(3, 2, 0)
    states = torch.randn(1, 5, 4, dtype=torch.float64)
    weights = reweighting(attention, segments)
    out = augment_states(states, weights)
    assert out.shape == (1, 5, 8)
    assert_close(out[0, :, :4], weights[0, 0] @ states[0])
    assert_close(out[0, :, 4:], weights[0, 1] @ states[0])


@given(**SIZES, place=st.floats(0, 0.999))
def test_a_displaced_condition_is_as_long_and_anywhere(
    sentences: int, condition: int, padding: int, place: float
) -> None:
    _, segments = drawn(sentences, condition, padding)
    moved = displaced_condition(segments, torch.tensor([place]))
    assert ((moved == PADDING) == (segments == PADDING)).all()
    inside = (moved[0] == 1).nonzero().flatten().tolist()
    assert len(inside) == condition
    assert inside == list(range(inside[0], inside[0] + condition)) if inside else True


def test_the_last_place_is_the_condition_itself() -> None:
    _, segments = drawn(4, 2, 1)
    assert torch.equal(displaced_condition(segments, torch.tensor([0.999])), segments)
    first = displaced_condition(segments, torch.tensor([0.0]))
    assert first.tolist() == [[1, 1, 0, 0, 0, 0, PADDING]]


def test_weights_of_the_sentence_by_its_attention_to_the_condition() -> None:
    attention, segments = drawn(3, 2, 1)
    weights = condition_weights(attention, segments)
    towards = attention[0, :, :3, 3:5].sum(dim=-1).mean(dim=0)
    assert_close(weights[0], torch.cat([towards / towards.sum(), torch.zeros(3)]).double())
    alone, segments = drawn(4, 0, 1)
    assert_close(condition_weights(alone, segments)[0, :4], torch.full((4,), 0.25).double())
