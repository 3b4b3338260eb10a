import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from tertium.functional import info_nce
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
