import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from tertium.errors import TertiumError
from tertium.recipes import sweep as module
from tertium.recipes.data import load_examples
from tertium.recipes.files import read_recipe
from tertium.recipes.lowshot import LowShotTable, run_low_shot
from tests.recipes.toys import (
    Trainings,
    contrast_stage,
    folder_of,
    seed_of,
    settings_of,
    toy_recipe,
    toy_stage,
    toy_text_file,
)


class LowShotTrainings(Trainings):
    """Trainings that draw their sentences, and a figure that depends on all there is."""

    def __init__(self) -> None:
        super().__init__()
        self.average = lambda command: 50.0 + sum(map(ord, folder_of(command).name)) % 97 / 10

    def record(self, command: list[str], run: Path) -> None:
        recipe = read_recipe(command[4], settings=settings_of(command), seed=seed_of(command))
        material = load_examples(recipe.stages[0], folder=None)
        (run / "recipe.yaml").write_text(recipe.to_yaml())
        found = {"examples": len(material.examples), "sha256": material.digest}
        (run / "data.json").write_text(json.dumps({"contrast": found}))


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> LowShotTrainings:
    stand_in = LowShotTrainings()
    monkeypatch.setattr(module.subprocess, "run", stand_in)
    return stand_in


@pytest.fixture
def recipes(tmp_path: Path) -> list[str]:
    """Two methods on the same texts, in files with a folder."""
    texts = toy_text_file(tmp_path / "own.txt", 60)
    both = [{"kind": "info_nce"}, {"kind": "attention_mi"}]
    chosen = contrast_stage(texts, objectives=both, select={"task": "STS-B", "every": 1})
    return [
        toy_recipe(tmp_path / "plain.yaml", Path("default"), contrast_stage(texts)),
        toy_recipe(tmp_path / "ami.yaml", Path("default"), chosen),
    ]


SETTINGS: dict[str, Any] = {"sizes": [8, 24], "seeds": 2, "steps": 10}


def test_every_recipe_runs_on_every_size_with_every_seed(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    output, heard = tmp_path / "runs", []
    table = run_low_shot(recipes, output, **SETTINGS, data=tmp_path, say=heard.append)
    names = [f"{r}.yaml-{n}-seed{s}" for r in ("plain", "ami") for n in (8, 24) for s in (1, 2)]
    assert trainings.folders == names
    assert heard[0] == "8 runs, 0 of them finished before"
    common = {"stages.0.data.subset": "by-seed", "stages.0.train.max_steps": 10}
    assert settings_of(trainings.commands[-1]) == {
        **common,
        "stages.0.data.limit": 24,
        "stages.0.select.every": 2,
    }
    # A recipe that chooses no checkpoint is not made to.
    assert settings_of(trainings.commands[0]) == {**common, "stages.0.data.limit": 8}
    for command, name in zip(trainings.commands, names, strict=True):
        at = recipes[name.startswith("ami")], 24 if "-24-" in name else 8
        assert trainings.average(command) == table.averages[at[0]][at[1]][seed_of(command) - 1]
    # Each seed has its own sentences, the same for both recipes.
    assert table.subsets.keys() == {8, 24}
    digests = [digest for by_seed in table.subsets.values() for digest in by_seed]
    assert len(set(digests)) == 4


def test_the_table_has_means_and_deviations(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    table = run_low_shot(recipes, tmp_path / "runs", **SETTINGS)
    text = (tmp_path / "runs" / "table.md").read_text("utf-8")
    assert text == f"{table}\n"
    assert "STS average after 10 steps" in text
    assert "| recipe | 8 sentences | 24 sentences |" in text
    values = table.averages[recipes[1]][24]
    assert len(values) == 2 and f"{fmean(values):.2f} ± {stdev(values):.2f} |" in text
    found = json.loads((tmp_path / "runs" / "table.json").read_text())
    assert found == table.to_json() and found["steps"] == 10
    cell = found["recipes"][recipes[1]]["24"]
    assert cell == {"averages": values, "mean": fmean(values), "sd": stdev(values)}
    assert found["subsets"] == {str(size): table.subsets[size] for size in (8, 24)}


def test_one_seed_has_no_deviation() -> None:
    table = LowShotTable(50, (1000,), {"a": {1000: [70.0]}}, {1000: ["x"]})
    assert "| a | 70.00 |" in str(table) and "1,000 sentences" in str(table)
    assert table.to_json()["recipes"]["a"]["1000"]["sd"] is None


def test_a_killed_call_goes_on_where_it_was(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    whole = run_low_shot(recipes, tmp_path / "whole", **SETTINGS)
    trainings.commands.clear()

    def killed(_: Path) -> None:
        if len(trainings.commands) == 4:
            raise KeyboardInterrupt

    trainings.before = killed
    with pytest.raises(KeyboardInterrupt):
        run_low_shot(recipes, tmp_path / "parts", **SETTINGS)
    assert not (tmp_path / "parts" / "table.md").exists()
    begun = list(trainings.folders)
    trainings.before = lambda folder: None
    trainings.commands.clear()
    heard: list[str] = []
    assert run_low_shot(recipes, tmp_path / "parts", **SETTINGS, say=heard.append) == whole
    assert heard[0].startswith("8 runs, 3 of them finished") or len(begun) > 4
    assert trainings.folders[0] == begun[3] and not set(trainings.folders) & set(begun[:3])
    for name in ("table.md", "table.json"):
        one, two = ((tmp_path / part / name).read_text() for part in ("whole", "parts"))
        assert one == two
    trainings.commands.clear()
    run_low_shot(recipes, tmp_path / "parts", **SETTINGS)
    assert not trainings.commands


def test_sentences_that_differ_are_not_compared(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    other = contrast_stage(toy_text_file(tmp_path / "more.txt", 80))
    mixed = [recipes[0], toy_recipe(tmp_path / "other.yaml", Path("default"), other)]
    with pytest.raises(TertiumError, match=r"other\.yaml saw other sentences than .* at 8"):
        run_low_shot(mixed, tmp_path / "runs", **SETTINGS)
    assert not (tmp_path / "runs" / "table.md").exists()


def test_runs_of_other_lengths_are_not_taken_for_these(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    run_low_shot(recipes, tmp_path / "runs", **SETTINGS)
    with pytest.raises(TertiumError, match="holds runs of 10 steps: give --steps 10, or"):
        run_low_shot(recipes, tmp_path / "runs", **{**SETTINGS, "steps": 20})
    more = run_low_shot(recipes, tmp_path / "runs", **{**SETTINGS, "seeds": 3})
    assert [len(values) for values in more.averages[recipes[0]].values()] == [3, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipes": ["simcse-minlm"]}, "Did you mean 'simcse-minilm'"),
        ({"recipes": ["sts-regression-minilm"]}, "learns from graded, not from texts"),
        ({"recipes": ["jtcse-minilm"]}, "jtcse-minilm has 3 stages"),
        ({"recipes": ["simcse-sup-bert"], "sizes": [1000]}, "learns from triplets, not from"),
        ({"recipes": ["simcse-minilm"]}, "8 sentences do not fill simcse-minilm's batch of 64"),
        ({"sizes": [24, 24]}, "every recipe and every size once"),
        ({"sizes": [24, 0]}, "0 sentences do not fill"),
        ({"sizes": [24, 61]}, "plain.yaml has 60 different sentences, not 61: give smaller"),
        ({"recipes": ["simcse-minilm"] * 2, "sizes": [64]}, "every recipe and every size once"),
    ],
)
def test_mistakes_are_found_before_anything_runs(
    change: dict[str, Any],
    message: str,
    recipes: list[str],
    tmp_path: Path,
    trainings: LowShotTrainings,
) -> None:
    given: dict[str, Any] = {"recipes": recipes, **SETTINGS, **change}
    with pytest.raises(TertiumError, match=message):
        run_low_shot(given.pop("recipes"), tmp_path / "runs", **given)
    assert not trainings.commands and not (tmp_path / "runs").exists()


def test_a_graded_recipe_in_a_file(pairs: Path, tmp_path: Path) -> None:
    graded = toy_recipe(tmp_path / "graded.yaml", Path("default"), toy_stage(pairs))
    with pytest.raises(TertiumError, match=r"graded\.yaml learns from graded"):
        run_low_shot([graded], tmp_path / "runs", **SETTINGS)


def test_settings_of_all_runs_of_a_recipe_and_of_a_size(
    recipes: list[str], tmp_path: Path, trainings: LowShotTrainings
) -> None:
    rate, weight = "stages.0.train.learning_rate", "stages.0.objectives.attention_mi.weight"
    given = [
        f"{recipes[1]}@8:{weight}=3",
        f"{rate}=1e-4",
        f"{recipes[1]}:{weight}=2",
        f"@24:{rate}=2e-4",
    ]
    run_low_shot(recipes, tmp_path / "runs", **{**SETTINGS, "seeds": 1}, settings=given)
    found = [settings_of(command) for command in trainings.commands]
    assert [each.get(weight) for each in found] == [None, None, 3, 2]
    assert [float(each[rate]) for each in found] == [1e-4, 2e-4, 1e-4, 2e-4]
    assert all(each["stages.0.train.max_steps"] == 10 for each in found)
    for wrong, said in (
        ("other:a=1", "not one of the recipes"),
        ("@9:a=1", "not one of the sizes"),
    ):
        with pytest.raises(TertiumError, match=said):
            run_low_shot(recipes, tmp_path / "runs", **SETTINGS, settings=[wrong])
