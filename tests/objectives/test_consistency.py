import pytest
import torch

from tertium.errors import TertiumError
from tertium.objectives import Consistency
from tertium.types import Compared, Graded


def graded(scores: list[float], passes: int = 2) -> Graded:
    rows = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    zeros = torch.zeros(len(scores))
    return Graded(Compared(rows), zeros, zeros.long(), passes)


def test_the_squared_distance_of_both_passes() -> None:
    found = Consistency().judge(graded([0.1, 0.5, 0.4, 0.5]))["consistency"].value
    torch.testing.assert_close(found, torch.tensor([0.09, 0.0], dtype=torch.float64))


def test_gradients() -> None:
    def loss(scores: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(len(scores))
        return (
            Consistency()
            .judge(Graded(Compared(scores), zeros, zeros.long(), 2))["consistency"]
            .value
        )

    scores = torch.tensor([0.1, 0.5, 0.4, 0.7], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, scores)


def test_one_pass_is_refused() -> None:
    with pytest.raises(TertiumError, match="compares two passes"):
        Consistency().judge(graded([0.1], passes=1))
