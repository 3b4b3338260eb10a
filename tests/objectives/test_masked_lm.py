import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tertium.objectives.masked_lm import masked_lm
from tertium.views.masking import NOT_MASKED


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
