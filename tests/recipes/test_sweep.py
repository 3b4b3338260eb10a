import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tertium.errors import TertiumError
from tertium.recipes import sweep as module
from tertium.recipes.files import RecipeError, read_recipe
from tertium.recipes.sweep import Sweep, SweepTable, read_sweep, run_all, run_sweep, sweep_names
from tests.recipes.toys import Trainings, toy_recipe, toy_stage


@pytest.fixture
def recipe(tmp_path: Path, pairs: Path) -> str:
    return toy_recipe(tmp_path / "toy.yaml", Path("default"), toy_stage(pairs))


def sweep_file(path: Path, **content: Any) -> str:
    path.write_text(
        yaml.safe_dump({"summary": "a sweep", **content}, sort_keys=False), encoding="utf-8"
    )
    return str(path)


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
        read_recipe(variant.recipe or found.recipe, settings=found.settings_of(variant))


def test_a_grid_is_the_product_of_its_values(recipe: str, tmp_path: Path) -> None:
    path = sweep_file(
        tmp_path / "grid.yaml",
        recipe=recipe,
        set=["stages.own.objectives.0.head=siamese"],
        grid={
            "stages.own.objectives.0.slope": [1, 2.5],
            "stages.own.objectives.0.features": [["u", "v"], ["|u-v|"]],
            "stages.own.train.clip": [None],
        },
    )
    sweep = read_sweep(path)
    variants = sweep.variants()
    assert [variant.name for variant in variants] == [
        "slope=1+features=u_v+clip=None",
        "slope=1+features=u-v+clip=None",
        "slope=2.5+features=u_v+clip=None",
        "slope=2.5+features=u-v+clip=None",
    ]
    found = read_recipe(recipe, settings=sweep.settings_of(variants[3]))
    objective = found.stages[0].objectives[0]
    assert objective.head is not None
    assert (objective.slope, objective.head.settings()) == (2.5, {"features": ("|u-v|",)})
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
    shown = [line.partition(": ") for line in heard[1:]]
    assert [number for number, _, _ in shown] == [f"{at} of 4" for at in range(1, 5)]
    assert sorted(line for _, _, line in shown) == [
        f"{name} {figure}, about 0 minutes left"
        for name, figure in zip(folders, ["71.00", "73.00"] * 2, strict=True)
    ]
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


def test_a_collapsed_run_has_no_figure(recipe: str, tmp_path: Path, trainings: Trainings) -> None:
    trainings.average = lambda command: None
    heard: list[str] = []
    table = run_sweep(
        sweep_file(tmp_path / "sweep.yaml", recipe=recipe), tmp_path / "runs", say=heard.append
    )
    assert "run-seed42 without a figure" in heard[-1]
    assert table.rows()[1][:4] == ["run", "1", "", ""]


def test_two_calls_on_one_folder_share_the_work(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    sweep = Sweep(summary="shared", recipe=recipe, seeds=(1, 2, 3, 4))
    both_are_at_it = threading.Barrier(2, timeout=60)
    begun = iter(range(100))

    def before(_: Path) -> None:
        if next(begun) < 2:  # each call is in a run of its own before any goes on
            both_are_at_it.wait()

    trainings.before = before
    heard: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(run_all, sweep, tmp_path / "runs", data=None, jobs=1, say=heard.append)
            for _ in range(2)
        ]
        one, two = (call.result(timeout=120) for call in calls)
    assert sorted(trainings.folders) == [f"run-seed{seed}" for seed in sweep.seeds]
    assert any(line.startswith("waiting for run-seed1, which another") for line in heard)
    assert one == two and [*one.scores["run"]] == [1, 2, 3, 4]


def test_what_another_call_gave_up_is_taken_over(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    first, second = (Sweep(summary="s", recipe=recipe, seeds=seeds) for seeds in ((1,), (1, 2)))
    begun, waited = threading.Event(), threading.Event()

    def gives_up(folder: Path) -> None:
        begun.set()
        if folder.name == "run-seed1" and not waited.is_set():
            assert waited.wait(timeout=60)
            raise KeyboardInterrupt

    def say(text: str) -> None:
        if text.startswith("waiting for run-seed1"):
            waited.set()

    trainings.before = gives_up
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(run_all, first, tmp_path, data=None, jobs=1)
        assert begun.wait(timeout=60)
        table = run_all(second, tmp_path, data=None, jobs=1, say=say)
        with pytest.raises(KeyboardInterrupt):
            call.result(timeout=60)
    assert trainings.folders == ["run-seed1", "run-seed2", "run-seed1"]
    assert table.scores["run"][1]["average"] == 71.0


def test_a_run_without_a_report_says_what_it_needs(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: done)
    path = sweep_file(tmp_path / "sweep.yaml", recipe=recipe)
    with pytest.raises(TertiumError, match=r"made no report.*--data"):
        run_sweep(path, tmp_path / "runs")


def test_a_table_says_where_a_run_had_less_data(
    recipe: str, tmp_path: Path, trainings: Trainings
) -> None:
    def record(command: list[str], run: Path) -> None:
        used = 58_674 if "stages.own.train.clip=1" in command else 1_000_000
        amount = {"used": used, "of": 1_000_000, "unit": "sentences", "short": used < 1_000_000}
        (run / "data.json").write_text(json.dumps({"own": {"amount": amount}}))

    trainings.record = record  # type: ignore[method-assign]
    variants = [
        {"name": name, "set": [f"stages.own.train.clip={n}"]}
        for n, name in ((1, "less"), (2, "all"))
    ]
    path = sweep_file(tmp_path / "sweep.yaml", recipe=recipe, runs=variants)
    table = run_sweep(path, tmp_path / "runs", strict_data=True)
    assert [row[-1] for row in table.rows()] == ["data", "58,674 of 1,000,000 sentences", ""]
    assert table.to_json()["data"] == {"less": "58,674 of 1,000,000 sentences"}
    assert all("--strict-data" in command for command in trainings.commands)


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


def test_further_suites_are_further_columns() -> None:
    run = {"average": 70.0, "leak_free": 69.0, "seconds": 60.0}
    plain = SweepTable("plain", (1,), {"a": {1: dict(run)}})
    assert plain.rows()[0] == ["variant", "runs", "STS average", "sd", "leak-free", "sd", "minutes"]
    more = SweepTable("more", (1,), {"a": {1: {**run, "transfer": 85.5, "uniformity": -2.0}}})
    header, row = more.rows()
    found = dict(zip(header, row, strict=True))
    assert (found["transfer average"], found["uniformity"]) == ("85.50", "-2.00")
