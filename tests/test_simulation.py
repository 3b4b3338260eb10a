"""The simulation that the scaling plan rests on."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "simulate_shards.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulate_shards", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


simulation = _load()
Setting, simulate = simulation.Setting, simulation.simulate


@given(shards=integers(1, 60), workers=integers(1, 9))
def test_without_failures_it_is_the_plain_schedule(shards: int, workers: int) -> None:
    found = simulate(Setting(shards, workers, shard_time=2.0, start_time=3.0))
    assert found.wall == 3 + 2 * -(-shards // workers)
    assert (found.busy, found.lost, found.losses) == (2 * shards, 0, 0)


@given(
    shards=integers(1, 60),
    workers=integers(1, 9),
    life=floats(2, 20),
    stop=floats(4, 30),
    seed=integers(0, 9),
)
def test_every_shard_is_finished_once_whatever_happens(
    shards: int, workers: int, life: float, stop: float, seed: int
) -> None:
    setting = Setting(
        *(shards, workers),
        start_time=0.5,
        mean_life=life,
        slow_share=0.3,
        slow_factor=1.5,
        stop_every=stop,
        resume_time=0.25,
    )
    found = simulate(setting, seed=seed)
    assert found.made == (1,) * shards
    assert found.wall >= shards / workers
    assert found.busy + found.lost <= found.wall * workers + 1e-9
    assert simulate(setting, seed=seed) == found


def test_a_slow_worker_takes_fewer_shards() -> None:
    found = simulate(Setting(30, 2, slow_share=0.5, slow_factor=2.0))
    assert found.wall == 20  # ten shards at half speed beside twenty


def test_a_kill_loses_what_was_in_hand_and_no_more() -> None:
    found = simulate(Setting(4, 2, shard_time=2.0, stop_every=3.0, resume_time=1.0))
    assert (found.lost, found.losses) == (2.0, 0)
    assert found.wall == 6.0


def test_the_plan_says_what_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(simulation, "ROWS", 10**6)
    lines = simulation.plan(100.0, 1500.0, price=0.5)
    assert lines[0].startswith("One worker: 100 sentences/s, 10.9 minutes for a shard")
    assert "cost" in lines[2]
    page = tmp_path / "scaling.md"
    page.write_text(f"before\n{simulation.BEGIN}\nold\n{simulation.END}\nafter\n")
    monkeypatch.setattr(simulation, "PAGE", page)
    simulation.update_page(["new"])
    simulation.update_page(["newer"])
    assert page.read_text() == (f"before\n{simulation.BEGIN}\n\nnewer\n\n{simulation.END}\nafter\n")
