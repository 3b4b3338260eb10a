from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tertium.errors import TertiumError
from tertium.functional import nt_xent
from tertium.functional.modulus import modulus_constraint
from tertium.objectives import CrossTowerContrast, ModulusConstraint, Objective, TowerContrast
from tertium.types import Crossing, Encoded, Towers, ViewPair


def drawn(seed: int, sentences: int = 5) -> Tensor:
    return torch.randn(2, 2, sentences, 8, generator=torch.Generator().manual_seed(seed))


def views(towers: Towers | None) -> ViewPair:
    side = Encoded(torch.zeros(5, 8), torch.zeros(5, 1, 8), torch.ones(5, 1, dtype=torch.long))
    return ViewPair(side, side, towers=towers)


TOWERS = Towers(drawn(0), drawn(1), drawn(2))


def value(objective: Objective, towers: Towers = TOWERS) -> Tensor:
    (found,) = objective(views(towers)).values()
    return found  # type: ignore[no-any-return]


def test_each_tower_contrasts_its_own_views() -> None:
    expected = sum(nt_xent(*tower, temperature=0.1).mean() for tower in TOWERS.cls)
    assert_close(value(TowerContrast(temperature=0.1)), expected)


@pytest.mark.parametrize("asks", [0, 1])
def test_the_coin_says_which_tower_asks(asks: int) -> None:
    assert TOWERS.crossed is not None
    found = value(CrossTowerContrast(temperature=0.1), replace(TOWERS, asks=asks))
    expected = torch.zeros(())
    for states in (TOWERS.cls, TOWERS.crossed):
        against = (states[1 - asks, 0], states[1 - asks, 1])
        expected = expected + nt_xent(*states[asks], temperature=0.1, against=against).mean()
    assert_close(found, expected)


def test_swapping_towers_and_the_coin_changes_nothing() -> None:
    assert TOWERS.pooled is not None and TOWERS.crossed is not None
    swapped = Towers(TOWERS.cls.flip(0), TOWERS.pooled.flip(0), TOWERS.crossed.flip(0), asks=1)
    for objective in (TowerContrast(), CrossTowerContrast(), ModulusConstraint()):
        assert_close(value(objective, swapped), value(objective))
    assert not torch.isclose(
        value(CrossTowerContrast(), replace(swapped, asks=0)), value(CrossTowerContrast())
    )


def test_without_cross_attention_its_part_is_not_there() -> None:
    plain = replace(TOWERS, crossed=None)
    against = (TOWERS.cls[1, 0], TOWERS.cls[1, 1])
    expected = nt_xent(*TOWERS.cls[0], temperature=0.05, against=against).mean()
    assert_close(value(CrossTowerContrast(), plain), expected)
    assert CrossTowerContrast().crossing is None
    assert CrossTowerContrast(cross_layers=3).crossing == Crossing(3, "stream")


def test_the_constraint_compares_each_view_with_the_other_towers_other_view() -> None:
    cls, pooled = TOWERS.cls, TOWERS.pooled
    assert pooled is not None
    expected = 0.5 * (
        modulus_constraint(pooled[0, 0], pooled[1, 1], cls[0, 0], cls[1, 1]).mean()
        + modulus_constraint(pooled[1, 0], pooled[0, 1], cls[1, 0], cls[0, 1]).mean()
    )
    assert_close(value(ModulusConstraint()), expected)
    assert_close(value(ModulusConstraint(modulus_scale=1.0)), 2 * expected)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TertiumError, match="pooler of their own"):
        value(ModulusConstraint(), replace(TOWERS, pooled=None))
    for objective in (TowerContrast(), CrossTowerContrast(), ModulusConstraint()):
        with pytest.raises(TertiumError, match="the encoder has only one"):
            objective(views(None))


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.0}, {"temperature": float("nan")}, {"cross_layers": -1}]
)
def test_settings_that_make_no_sense(settings: dict[str, float]) -> None:
    with pytest.raises(TertiumError, match=next(iter(settings))):
        CrossTowerContrast(**settings)  # type: ignore[arg-type]
    with pytest.raises(TertiumError, match="modulus_scale"):
        ModulusConstraint(modulus_scale=0.0)
