import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from tertium.functional import contrastive_tension, info_nce, nt_xent
from tertium.functional.contrast import contrast_logits
from tests.functional.draws import SEEDS, TEMPERATURES, leaf, normal


def naive_loss(
    anchors: Tensor,
    positives: Tensor,
    *,
    temperature: float,
    negatives: Tensor | None = None,
    negative_weight: float = 0.0,
    queue: Tensor | None = None,
) -> list[float]:
    """SimCSE's equations, written out."""

    def scaled(u: Tensor, v: Tensor) -> float:
        return cosine_similarity(u, v, dim=0).item() / temperature

    losses = []
    for i, anchor in enumerate(anchors):
        total = sum(math.exp(scaled(anchor, p)) for p in positives)
        if negatives is not None:
            for j, negative in enumerate(negatives):
                total += math.exp(scaled(anchor, negative) + (negative_weight if i == j else 0))
        if queue is not None:
            total += sum(math.exp(scaled(anchor, q)) for q in queue)
        losses.append(-math.log(math.exp(scaled(anchor, positives[i])) / total))
    return losses


@given(
    n=st.integers(1, 6),
    d=st.integers(2, 8),
    seed=SEEDS,
    temperature=TEMPERATURES,
    weight=st.floats(-2, 2),
    hard=st.booleans(),
    queued=st.integers(0, 4),
)
def test_equals_a_loop(
    n: int, d: int, seed: int, temperature: float, weight: float, hard: bool, queued: int
) -> None:
    a, p, h = normal(seed, 3, n, d)
    options = {
        "temperature": temperature,
        "negatives": h if hard else None,
        "negative_weight": weight,
        "queue": normal(seed + 1, queued, d) if queued else None,
    }
    expected = torch.tensor(naive_loss(a, p, **options), dtype=torch.float64)
    assert_close(info_nce(a, p, **options), expected, rtol=1e-6, atol=1e-9)


@given(n=st.integers(2, 6), seed=SEEDS, temperature=TEMPERATURES, scale=st.floats(0.01, 100))
def test_invariances_and_sign(n: int, seed: int, temperature: float, scale: float) -> None:
    a, p = normal(seed, 2, n, 5)
    loss = info_nce(a, p, temperature=temperature)
    assert_close(info_nce(scale * a, p, temperature=temperature), loss)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    assert_close(info_nce(a[order], p[order], temperature=temperature), loss[order])
    assert (loss > 0).all()
    # Cosines lie within [-1, 1], so a softmax over n of them cannot be further from certainty.
    assert (loss <= math.log(1 + (n - 1) * math.exp(2 / temperature)) + 1e-9).all()


@given(seed=SEEDS, queued=st.integers(1, 5))
def test_more_negatives_cost_more(seed: int, queued: int) -> None:
    a, p, h = normal(seed, 3, 4, 5)
    plain = info_nce(a, p, temperature=0.1)
    assert (info_nce(a, p, temperature=0.1, negatives=h) > plain).all()
    assert (info_nce(a, p, temperature=0.1, queue=normal(seed + 1, queued, 5)) > plain).all()


def test_columns_are_positives_then_negatives_then_queue() -> None:
    a, p, h, q = normal(0, 4, 3, 5)
    logits = contrast_logits(a, p, temperature=0.5, negatives=h, negative_weight=7.0, queue=q)
    assert logits.shape == (3, 9)
    assert_close(logits[:, :3], contrast_logits(a, p, temperature=0.5))
    assert_close(logits[:, 3:6], contrast_logits(a, h, temperature=0.5) + 7.0 * torch.eye(3))
    assert_close(logits[:, 6:], contrast_logits(a, q, temperature=0.5))


def test_the_largest_logits_do_not_overflow() -> None:
    a = torch.eye(3)
    loss = info_nce(a, a, temperature=1e-3)
    assert_close(loss, torch.zeros(3))
    assert info_nce(a, -a, temperature=1e-3).isfinite().all()


@pytest.mark.parametrize("filler", [0.0, 1.0], ids=["zero rows", "collapsed"])
def test_degenerate_batches_have_finite_values_and_gradients(filler: float) -> None:
    a = torch.full((4, 3), filler, requires_grad=True)
    loss = info_nce(a, a, temperature=0.05)
    loss.mean().backward()
    assert_close(loss, torch.full((4,), math.log(4)))
    assert a.grad is not None and a.grad.isfinite().all()


def test_gradients_are_those_of_the_formula() -> None:
    def loss(a: Tensor, p: Tensor, h: Tensor, q: Tensor) -> Tensor:
        return info_nce(a, p, temperature=0.5, negatives=h, negative_weight=0.3, queue=q)

    inputs = (leaf(0, 3, 4), leaf(1, 3, 4), leaf(2, 3, 4), leaf(3, 2, 4))
    assert torch.autograd.gradcheck(loss, inputs)


# 2N-way contrast


def naive_nt_xent(
    first: Tensor,
    second: Tensor,
    *,
    temperature: float,
    against: tuple[Tensor, Tensor] | None,
    queue: Tensor | None = None,
) -> list[float]:
    """SimCLR's Eq. 1 for every view of every sentence; columns may be another tower's."""
    rows = [
        (i, view, vector)
        for view, side in enumerate((first, second))
        for i, vector in enumerate(side)
    ]
    columns = (
        rows
        if against is None
        else [
            (i, view, vector) for view, side in enumerate(against) for i, vector in enumerate(side)
        ]
    )
    losses = []
    for i, view, vector in rows:
        weights = {
            (j, other): math.exp(cosine_similarity(vector, column, dim=0).item() / temperature)
            for j, other, column in columns
            if (j, other) != (i, view)
        }
        total = sum(weights.values())
        for column in [] if queue is None else queue:
            total += math.exp(cosine_similarity(vector, column, dim=0).item() / temperature)
        losses.append(-math.log(weights[i, 1 - view] / total))
    return losses


@given(
    n=st.integers(1, 5),
    d=st.integers(2, 6),
    seed=SEEDS,
    temperature=TEMPERATURES,
    towers=st.sampled_from([1, 2]),
    queued=st.integers(0, 4),
)
def test_nt_xent_equals_a_loop(
    n: int, d: int, seed: int, temperature: float, towers: int, queued: int
) -> None:
    first, second, other, fourth = normal(seed, 4, n, d)
    options = {
        "temperature": temperature,
        "against": None if towers == 1 else (other, fourth),
        "queue": normal(seed + 1, queued, d) if queued else None,
    }
    found = nt_xent(first, second, **options)
    assert found.shape == (2 * n,)
    expected = naive_nt_xent(first, second, **options)
    assert_close(found.tolist(), expected, rtol=1e-6, atol=1e-9)


@given(seed=SEEDS, queued=st.integers(1, 5))
def test_a_queue_costs_every_row_of_nt_xent(seed: int, queued: int) -> None:
    first, second = normal(seed, 2, 4, 5)
    queue = normal(seed + 1, queued, 5)
    plain = nt_xent(first, second, temperature=0.1)
    assert (nt_xent(first, second, temperature=0.1, queue=queue) > plain).all()


@given(n=st.integers(2, 5), seed=SEEDS, scale=st.floats(0.01, 100))
def test_nt_xent_does_not_care_for_scale_order_and_which_view_is_first(
    n: int, seed: int, scale: float
) -> None:
    first, second = normal(seed, 2, n, 4)
    loss = nt_xent(first, second, temperature=0.1)
    assert (loss > 0).all()
    assert_close(nt_xent(scale * first, second, temperature=0.1), loss)
    assert_close(nt_xent(second, first, temperature=0.1), loss.roll(n))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    moved = nt_xent(first[order], second[order], temperature=0.1)
    assert_close(moved, loss.reshape(2, n)[:, order].flatten())
    # A tower against itself leaves out the same column: its own.
    assert_close(nt_xent(first, second, temperature=0.1, against=(first, second)), loss)


def test_nt_xent_of_a_single_sentence_and_of_a_collapsed_batch() -> None:
    one = torch.randn(1, 3)
    assert_close(nt_xent(one, -one, temperature=0.05), torch.zeros(2))
    a = torch.zeros(4, 3, requires_grad=True)
    loss = nt_xent(a, a, temperature=0.05)
    loss.mean().backward()
    assert_close(loss, torch.full((8,), math.log(7)))
    assert a.grad is not None and a.grad.isfinite().all()


@pytest.mark.parametrize("towers", [1, 2])
def test_nt_xent_gradients(towers: int) -> None:
    def loss(*sides: Tensor) -> Tensor:
        against = (sides[2], sides[3]) if towers == 2 else None
        return nt_xent(sides[0], sides[1], temperature=0.5, against=against)

    assert torch.autograd.gradcheck(loss, tuple(leaf(at, 3, 4) for at in range(2 * towers)))


# contrastive tension


@given(g=st.integers(1, 4), k=st.integers(1, 5), d=st.integers(1, 5), seed=SEEDS)
def test_contrastive_tension_equals_a_loop(g: int, k: int, d: int, seed: int) -> None:
    anchors, candidates = normal(seed, g, d), normal(seed + 1, g, k, d)
    found = contrastive_tension(anchors, candidates)
    assert found.shape == (g, k)
    for i in range(g):
        for j in range(k):
            dot = sum(
                float(x) * float(y) for x, y in zip(anchors[i], candidates[i, j], strict=True)
            )
            same = 1 / (1 + math.exp(-dot))
            expected = -math.log(same if j == 0 else 1 - same)
            assert_close(found[i, j].item(), expected, rtol=1e-6, atol=1e-9)


def test_contrastive_tension_of_large_vectors_is_finite() -> None:
    anchors = torch.full((1, 4), 100.0, requires_grad=True)
    candidates = torch.full((1, 3, 4), 100.0, requires_grad=True)
    loss = contrastive_tension(anchors, candidates)
    assert_close(loss, torch.tensor([[0.0, 4e4, 4e4]]))
    loss.mean().backward()
    for side in (anchors, candidates):
        assert side.grad is not None and side.grad.isfinite().all()


def test_contrastive_tension_gradients() -> None:
    assert torch.autograd.gradcheck(contrastive_tension, (leaf(0, 2, 3), leaf(1, 2, 4, 3)))
