import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.objectives import MaskedLM
from tertium.objectives.masked_lm import masked_lm
from tertium.types import Encoded, Masked, ViewPair
from tertium.views.noise import NOT_MASKED


class Spy(nn.Module):
    """A linear head that notes how many positions it was asked for."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, vocabulary, dtype=torch.float64)
        self.asked = 0

    def forward(self, hidden: Tensor) -> Tensor:
        self.asked += len(hidden)
        scores: Tensor = self.linear(hidden)
        return scores


@given(n=st.integers(1, 4), t=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_equals_a_loop_over_masked_positions(n: int, t: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randn(n, t, 3, dtype=torch.float64, generator=generator)
    labels = torch.randint(0, 7, (n, t), generator=generator)
    labels[torch.rand(n, t, generator=generator) < 0.5] = NOT_MASKED
    labels[0, 0] = 1  # a batch where chance hides nothing has its own test
    head = Spy(3, 7)
    expected = []
    for i in range(n):
        for j in range(t):
            if labels[i, j] != NOT_MASKED:
                scores = head.linear(tokens[i, j]).tolist()
                total = sum(math.exp(score) for score in scores)
                expected.append(-math.log(math.exp(scores[labels[i, j]]) / total))
    values = masked_lm(tokens, labels, head=head)
    assert_close(values, torch.tensor(expected, dtype=torch.float64))
    assert head.asked == len(expected)  # the head runs on masked positions alone


def test_nothing_masked_gives_one_zero() -> None:
    labels = torch.full((2, 3), NOT_MASKED)
    values = masked_lm(torch.randn(2, 3, 4, dtype=torch.float64), labels, head=Spy(4, 5))
    assert_close(values, torch.zeros(1, dtype=torch.float64))


def test_gradients_reach_tokens_and_head() -> None:
    tokens = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[NOT_MASKED, 2, NOT_MASKED], [0, NOT_MASKED, NOT_MASKED]])
    head = Spy(4, 5)
    assert torch.autograd.gradcheck(lambda t: masked_lm(t, labels, head=head), (tokens,))
    masked_lm(tokens, labels, head=head).sum().backward()
    assert tokens.grad is not None
    assert (tokens.grad.abs().sum(-1) > 0).tolist() == (labels >= 0).tolist()
    assert head.linear.weight.grad is not None and head.linear.weight.grad.any()
    nothing = masked_lm(tokens, torch.full((2, 3), NOT_MASKED), head=head)
    nothing.sum().backward()  # a batch without hidden tokens still has a graph


def test_the_objective_reads_the_masked_pass() -> None:
    embedding = torch.zeros(2, 4)
    side = Encoded(embedding, embedding[:, None], torch.ones(2, 1, dtype=torch.long))
    tokens = torch.randn(2, 3, 4, dtype=torch.float64)
    labels = torch.tensor([[1, NOT_MASKED, 2], [NOT_MASKED, NOT_MASKED, 4]])
    objective = MaskedLM(head=Spy(4, 5), probability=0.3)
    assert objective.mask_probability == 0.3
    found = objective(ViewPair(side, side, masked=Masked(tokens, labels)))
    expected = masked_lm(tokens, labels, head=objective.head)
    assert expected.shape == (3,)
    assert_close(found, {"masked_lm": expected.mean()})
    with pytest.raises(TertiumError, match="a pass with hidden tokens"):
        objective(ViewPair(side, side))


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, math.nan])
def test_some_tokens_are_hidden_and_some_are_not(probability: float) -> None:
    with pytest.raises(TertiumError, match="probability must be between 0 and 1"):
        MaskedLM(head=nn.Identity(), probability=probability)
