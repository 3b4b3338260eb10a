import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tertium.errors import TertiumError
from tertium.recipes import sweep as module
from tertium.recipes.files import RecipeError, read_recipe
from tertium.recipes.sweep import Sweep, SweepTable, read_sweep, run_sweep, sweep_names
from tests.recipes.toys import toy_recipe, toy_stage


@pytest.fixture
def recipe(tmp_path: Path, pairs: Path) -> str:
    return toy_recipe(tmp_path / "toy.yaml", Path("default"), toy_stage(pairs))


def sweep_file(path: Path, **content: Any) -> str:
    path.write_text(
        yaml.safe_dump({"summary": "a sweep", **content}, sort_keys=False), encoding="utf-8"
    )
    return str(path)


class Trainings:
    """Stands for the training processes: each writes the report of a run."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.failing: str | None = None

    def __call__(self, command: list[str], *, stderr: Any, **_: Any) -> Any:
        self.commands.append(command)
        folder = Path(command[command.index("-o") + 1])
        if folder.name == self.failing:
            stderr.write("note: begun\nerror: no space left\n")
            return subprocess.CompletedProcess(command, 2)
        seed = int(command[command.index("--seed") + 1])
        tasks = {"STS-B": {"spearman": 70.0 + seed}}
        sts = {"average": 70.0 + seed, "leak_free": {"spearman": 60.0}, "tasks": tasks}
        (folder / "run" / "0-own").mkdir(parents=True, exist_ok=True)
        (folder / "run" / "seconds.txt").write_text("90")
        (folder / "run" / "recipe.yaml").write_text("")
        for weights in ("model.safetensors", "run/0-own/model.safetensors"):
            (folder / weights).write_text("weights")
        (folder / "report.json").write_text(json.dumps({"results": {"sts": sts}}))
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    stand_in = Trainings()
    monkeypatch.setattr(module.subprocess, "run", stand_in)
    return stand_in


@pytest.mark.parametrize("name", sweep_names())
def test_every_sweep_is_valid(name: str) -> None:
    found = read_sweep(name)
    names = [variant.name for variant in found.variants()]
    assert found.summary and found.seeds and len(set(names)) == len(names)
    for variant in found.variants():
        read_recipe(variant.recipe or found.recipe, overrides=[*found.set, *variant.set])


def test_a_grid_is_the_product_of_its_values(recipe: str, tmp_path: Path) -> None:
    path = sweep_file(
        tmp_path / "grid.yaml",
        recipe=recipe,
        grid={
            "stages.own.objectives.0.slope": [1, 2.5],
            "stages.own.objectives.0.features": [["u", "v"], ["|u-v|"]],
            "stages.own.train.clip": [None],
        },
    )
    variants = read_sweep(path).variants()
    assert [variant.name for variant in variants] == [
        "slope=1+features=u_v+clip=None",
        "slope=1+features=u-v+clip=None",
        "slope=2.5+features=u_v+clip=None",
        "slope=2.5+features=u-v+clip=None",
    ]
    found, _ = read_recipe(recipe, overrides=variants[3].set)
    objective = found.stages[0].objectives[0]
    assert (objective.slope, objective.features) == (2.5, ("|u-v|",))
    assert found.stages[0].train.clip is None


def test_a_sweep_without_variants_is_one_run(recipe: str) -> None:
    assert [v.name for v in Sweep(summary="one", recipe=recipe).variants()] == ["run"]


def test_every_variant_runs_with_every_seed(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    path = sweep_file(
        tmp_path / "sweep.yaml",
        recipe=recipe,
        set=["stages.own.train.max_steps=1"],
        runs=[{"name": "a"}, {"name": "b", "set": ["stages.own.train.warmup=0.1"]}],
        seeds=[1, 3],
    )
    heard: list[str] = []
    output = tmp_path / "runs"
    table = run_sweep(path, output, data=tmp_path, say=heard.append)
    folders = sorted(p.name for p in output.iterdir() if p.is_dir())
    assert folders == ["a-seed1", "a-seed3", "b-seed1", "b-seed3"]
    assert heard[0] == "4 runs, 0 of them finished before"
    assert heard[-1] == "4 of 4: b-seed3 73.0"
    last = trainings.commands[-1]
    assert last[2:5] == ["tertium", "train", recipe]
    assert [last[at + 1] for at, part in enumerate(last) if part == "--set"] == [
        "stages.own.train.max_steps=1",
        "stages.own.train.warmup=0.1",
    ]
    assert last[last.index("--data") + 1] == str(tmp_path)
    assert "--resume" not in last
    header, a, _ = table.rows()
    assert a == ["a", "2", "72.00", "1.41", "60.00", "0.00", "1.5"]
    assert len(header) == len(a)
    assert "| a | 2 | 72.00 | 1.41 |" in (output / "table.md").read_text()
    assert table.to_json()["runs"]["b"][3]["STS-B"] == 73.0
    assert not list(output.rglob("*.safetensors"))  # figures are kept, weights are not


def test_finished_runs_are_skipped_and_begun_ones_resumed(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    path = sweep_file(tmp_path / "sweep.yaml", recipe=recipe, seeds=[1, 2])
    output = tmp_path / "runs"
    trainings.failing = "run-seed2"
    with pytest.raises(TertiumError, match="run-seed2 failed: error: no space left"):
        run_sweep(path, output)
    (output / "run-seed2" / "run").mkdir()
    (output / "run-seed2" / "run" / "recipe.yaml").touch()
    trainings.failing = None
    trainings.commands.clear()
    heard: list[str] = []
    table = run_sweep(path, output, keep_models=True, say=heard.append)
    assert heard[0] == "2 runs, 1 of them finished before"
    (command,) = trainings.commands
    assert "--resume" in command
    assert table.rows()[1][1:4] == ["2", "71.50", "0.71"]
    assert (output / "run-seed2" / "model.safetensors").exists()


def test_after_a_failure_no_other_run_begins(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    path = sweep_file(tmp_path / "sweep.yaml", recipe=recipe, seeds=list(range(50)))
    trainings.failing = "run-seed0"
    with pytest.raises(TertiumError, match="run-seed0 failed"):
        run_sweep(path, tmp_path / "runs")
    assert len(trainings.commands) < 50


def test_a_run_without_a_report_says_what_it_needs(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: done)
    path = sweep_file(tmp_path / "sweep.yaml", recipe=recipe)
    with pytest.raises(TertiumError, match=r"made no report.*--data"):
        run_sweep(path, tmp_path / "runs")


def test_one_run_has_no_deviation_and_a_missing_figure_no_cell() -> None:
    scores = {"a": {1: {"average": 70.0, "leak_free": None, "seconds": 30.0}}}
    table = SweepTable("one", (1,), scores)  # type: ignore[arg-type]
    assert table.rows()[1] == ["a", "1", "70.00", "", "", "", "0.5"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "recipe: Field required"),
        ({"recipe": "sts-regression-minilm", "speed": 1}, "speed: Extra inputs"),
        ({"recipe": "sts-regression-minilm", "runs": [{"name": "a b"}]}, "runs.0.name"),
        (
            {"recipe": "sts-regression-minilm", "runs": [{"name": "a"}, {"name": "a"}]},
            "sweep: two runs share a name: a",
        ),
        (
            {"recipe": "sts-regression-minilm", "grid": {"stages.stsb.train.epochs": [1, -1]}},
            "stages.stsb.train.epochs: ",
        ),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    tmp_path: Path, content: dict[str, Any], message: str, trainings: Trainings
) -> None:
    with pytest.raises(RecipeError) as caught:
        run_sweep(sweep_file(tmp_path / "bad.yaml", **content), tmp_path / "runs")
    assert message in str(caught.value)
    assert not trainings.commands
    assert not (tmp_path / "runs").exists()


def test_files_that_are_no_sweeps(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="Did you mean 'sts-regression-minilm-heads'"):
        read_sweep("sts-regression-minilm-head")
    with pytest.raises(RecipeError, match="no such sweep file"):
        read_sweep(str(tmp_path / "no.yaml"))
    (tmp_path / "no.yaml").write_text("runs: [")
    with pytest.raises(RecipeError, match="is not YAML"):
        read_sweep(str(tmp_path / "no.yaml"))
