import math

import pytest
import torch
from hypothesis import given
from hypothesis.strategies import integers

from tertium.errors import TertiumError
from tertium.objectives import Distillation
from tertium.objectives.base import NonFiniteLossError
from tertium.objectives.regression import cosine_error, embedding_error
from tertium.types import Encoded, ViewPair


def encoded(rows: torch.Tensor) -> Encoded:
    return Encoded(rows, rows[:, None], torch.ones(len(rows), 1, dtype=torch.long))


@given(n=integers(1, 5), d=integers(1, 7), seed=integers(0, 2**31))
def test_the_error_is_a_mean_of_squares(n: int, d: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    student, teacher = torch.randn(2, n, d, dtype=torch.float64, generator=draw)
    found = embedding_error(student, teacher)
    for i in range(n):
        squares = [(student[i, j] - teacher[i, j]).item() ** 2 for j in range(d)]
        assert found[i].item() == pytest.approx(sum(squares) / d)
    assert (found >= 0).all()
    torch.testing.assert_close(embedding_error(teacher, student), found)
    torch.testing.assert_close(embedding_error(teacher, teacher), torch.zeros_like(found))


def test_the_gradient_leads_to_the_teacher() -> None:
    student = torch.zeros(2, 3, requires_grad=True)
    teacher = torch.ones(2, 3)
    Distillation()(ViewPair(encoded(student), encoded(teacher)))["distil"].backward()
    assert student.grad is not None and (student.grad < 0).all()


def test_a_teacher_that_is_not_finite_is_named() -> None:
    rows = torch.ones(2, 3)
    with pytest.raises(NonFiniteLossError, match="'distil'"):
        Distillation()(ViewPair(encoded(rows), encoded(rows * math.inf)))


def cosines(rows: torch.Tensor) -> torch.Tensor:
    return torch.stack(
        [torch.stack([torch.cosine_similarity(a, b, dim=0) for b in rows]) for a in rows]
    )


def test_with_prefixes_the_cosines_of_every_length_count() -> None:
    draw = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 4, 6, dtype=torch.float64, generator=draw)
    views = ViewPair(encoded(student), encoded(teacher))
    found = Distillation(prefixes=(3, 2)).terms(views)["distil"].value
    expected = torch.zeros(4, dtype=torch.float64)
    for length in (6, 3, 2):
        expected += (cosines(student[:, :length]) - cosines(teacher)).square().mean(dim=1)
    torch.testing.assert_close(found, expected)
    turned = student @ torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=draw))[0]
    torch.testing.assert_close(cosine_error(turned, student), torch.zeros_like(expected))
    with pytest.raises(TertiumError, match="from 1 on"):
        Distillation(prefixes=(0,))
