import json
from pathlib import Path
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.report.page import Drawn
from tertium.report.runs import read_runs, runs_section

LOG = [{"loss": 2.0, "step": 1}, {"eval_score": 70.0, "step": 1}, {"loss": 1.0, "step": 2}]


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def sweep(folder: Path) -> Path:
    for variant, averages in {"small": (70.0, 72.0), "large": (75.0, 76.0)}.items():
        for seed, average in enumerate(averages, 1):
            run = folder / f"{variant}-seed{seed}"
            write(run / "report.json", {"results": {"sts": {"average": average}}})
            write(run / "run" / "0-contrast" / "finished.json", LOG)
    return folder


def names(folders: list[Path]) -> list[str]:
    section, left_out = runs_section(read_runs(folders))
    assert section is not None and not left_out
    return [block.name for block in section.blocks if isinstance(block, Drawn)]


def test_one_run_has_training_curves(tmp_path: Path) -> None:
    write(tmp_path / "run" / "0-contrast" / "finished.json", LOG)
    write(tmp_path / "run" / "data.json", {})
    (found,) = read_runs([tmp_path])
    assert list(found.logs) == [f"{tmp_path.name}, 0-contrast"] and not found.variants
    assert names([tmp_path]) == ["training-1"]


def test_a_sweep_has_variants_over_seeds(tmp_path: Path) -> None:
    (found,) = read_runs([sweep(tmp_path)])
    assert found.variants == {"large": [75.0, 76.0], "small": [70.0, 72.0]}
    assert list(found.logs) == ["large-seed1", "large-seed2", "small-seed1", "small-seed2"]
    assert names([tmp_path]) == ["variants-1", "training-1"]


def test_a_low_shot_study_has_curves_and_gains(tmp_path: Path) -> None:
    entry = {"100": {"averages": [60.0, 61.0]}, "1000": {"averages": [70.0, 71.0]}}
    write(tmp_path / "table.json", {"steps": 5, "recipes": {"a": entry, "b": entry}})
    sweep(tmp_path)
    (found,) = read_runs([tmp_path])
    assert found.averages["a"] == {100: [60.0, 61.0], 1000: [70.0, 71.0]} and not found.variants
    assert names([tmp_path]) == ["low-shot-1", "low-shot-gains-1", "training-1"]


def test_a_run_too_short_to_have_logged_is_left_out(tmp_path: Path) -> None:
    short = [{"train_runtime": 0.5, "step": 1.0, "train_loss": 2.0}]
    write(tmp_path / "short" / "run" / "0-contrast" / "finished.json", short)
    section, (entry,) = runs_section(read_runs([tmp_path / "short"]))
    assert section is None and entry.reason == (
        "short: short, 0-contrast is too short to have logged anything."
    )
    write(tmp_path / "long" / "run" / "0-contrast" / "finished.json", LOG)
    section, left_out = runs_section(read_runs([tmp_path / "short", tmp_path / "long"]))
    assert section is not None and [entry.section for entry in left_out] == ["runs"]
    drawn = [block.name for block in section.blocks if isinstance(block, Drawn)]
    assert drawn == ["training-2"]


def test_no_runs_are_told(tmp_path: Path) -> None:
    section, (entry,) = runs_section([])
    assert section is None and "--runs DIR" in entry.reason
    with pytest.raises(TertiumError, match="contains no finished run"):
        read_runs([tmp_path])
    (tmp_path / "table.json").write_text("{")
    with pytest.raises(TertiumError, match="is not JSON"):
        read_runs([tmp_path])
