import math
from dataclasses import replace

import pytest
import torch

from tertium.training.health import CollapseError, Measurement, check_health, measure
from tests.training.toys import HEALTHY

FINE = Measurement(score=80.0, **HEALTHY)


def test_healthy_embeddings_pass() -> None:
    rows = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    found = measure(75.0, rows)
    check_health(found, step=10)
    assert found.score == 75.0
    assert found.effective_rank > 8
    assert abs(found.anisotropy) < 0.1
    assert found.uniformity < -2


def test_a_constant_embedding_is_a_collapse() -> None:
    with pytest.raises(CollapseError, match=r"step 30.*learning rate"):
        check_health(measure(10.0, torch.ones(32, 8)), step=30)


def test_one_direction_is_a_collapse() -> None:
    along = torch.linspace(-1, 1, 32)[:, None] * torch.ones(1, 8)
    with pytest.raises(CollapseError, match=r"span 1\.00 directions"):
        check_health(measure(10.0, along), step=1)


def test_a_narrow_cone_is_a_collapse() -> None:
    noise = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    found = measure(10.0, 100 + 0.1 * noise)
    with pytest.raises(CollapseError, match="collapsed at step 5"):
        check_health(found, step=5)
    with pytest.raises(CollapseError, match=r"cosine 0\.9990"):
        check_health(replace(FINE, anisotropy=0.999), step=5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": math.nan}, "predictions are equal"),
        ({"effective_rank": 1.5}, "span 1.50 directions"),
        ({"effective_rank": math.nan}, "span nan directions"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, float], message: str) -> None:
    with pytest.raises(CollapseError, match=message):
        check_health(replace(FINE, **change), step=1)
    check_health(FINE, step=1)
