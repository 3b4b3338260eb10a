"""``tertium train``, ``tertium recipes`` and ``tertium sweep`` from end to end."""

import json
from pathlib import Path

import pytest
import yaml

import tertium
from tertium.models import Encoder, PairScorer
from tertium.recipes.files import recipe_names
from tests.cli.conftest import Run
from tests.recipes.toys import (
    contrast_stage,
    toy_benchmarks,
    toy_pairs,
    toy_recipe,
    toy_stage,
    toy_text_file,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def benchmarks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_benchmarks(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture
def recipe(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe on a user's own pairs, where no benchmark data are found."""
    inner = tmp_path / "work" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
    pairs = toy_pairs(tmp_path / "pairs.tsv")
    return toy_recipe(tmp_path / "toy.yaml", tiny_bert, toy_stage(pairs))


# train


def test_an_interruption_names_the_way_to_resume(
    run: Run, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tertium.recipes.train.train", interrupted)
    ran = run("train", recipe, "-o", tmp_path / "model")
    assert ran.code == 130
    assert ran.err.strip().endswith("are kept; rerun the command with --resume")


def test_strict_data_from_the_command_line(
    run: Run, recipe: str, benchmarks_folder: Path, tmp_path: Path
) -> None:
    ran = run(
        "train",
        recipe,
        "-o",
        tmp_path / "model",
        "--strict-data",
        "--set",
        "stages.own.data.limit=500",
        "--data",
        benchmarks_folder,
    )
    assert ran.code == 2 and "12 of 500 pairs in stage own" in ran.err
    assert not (tmp_path / "model").exists()
    ran = run(
        "train",
        recipe,
        "-o",
        tmp_path / "model",
        "--set",
        "stages.own.data.limit=500",
        "--data",
        benchmarks_folder,
    )
    assert ran.code == 0 and ran.err.count("12 of 500 pairs") == 1
    assert "stage own ran on 12 of 500 pairs" in ran.out


def test_train_in_json(run: Run, recipe: str, benchmarks_folder: Path, tmp_path: Path) -> None:
    ran = run("train", recipe, "-o", tmp_path / "model", "--data", benchmarks_folder, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert list(found) == ["model", "seconds", "data", "log", "report"]
    assert found["data"] == {"own": {"used": 12, "of": None, "unit": "pairs", "short": False}}
    assert found["model"] == str(tmp_path / "model")
    losses = [entry for entry in found["log"]["own"] if "loss" in entry]
    assert losses[-1].keys() >= {"loss", "smooth_k2", "step", "epoch"}
    assert found["report"]["results"]["sts"]["tasks"].keys() >= {"STS12", "STS-B", "SICK-R"}
    options = ("--data", benchmarks_folder, "--engine", "torch", "--json")
    evaluated = run("evaluate", tmp_path / "model", *options)
    assert (
        json.loads(evaluated.out)["results"]["sts"]["average"]
        == found["report"]["results"]["sts"]["average"]
    )


def test_train_for_people_with_own_pairs_and_settings(
    run: Run, recipe: str, tmp_path: Path
) -> None:
    own = toy_pairs(tmp_path / "it's my own.tsv", *(at % 6 for at in range(12)))
    ran = run(
        *("train", recipe, own, "-o", tmp_path / "model", "--seed", 3),
        *("--set", "stages.own.train.max_steps=1", "--set", "encoder.pooling=cls"),
    )
    assert ran.code == 0, ran.err
    assert "trained in" in ran.err and "README.md" in ran.err
    record = yaml.safe_load((tmp_path / "model" / "run" / "recipe.yaml").read_text())
    assert record["stages"][0]["data"]["sources"] == [{"file": str(own)}]
    settings = record["stages"][0]["train"]
    assert (settings["seed"], settings["max_steps"]) == (3, 1)
    model = tertium.load(tmp_path / "model", engine="torch")
    assert isinstance(model, PairScorer) and model.pooling == "cls"
    assert 0 <= model.score([("a b", "c d")])[0] <= 5

    compared = run("compare", "a b", "a b", "x y", "-m", tmp_path / "model", "--json")
    pair = json.loads(compared.out)["pairs"][0]
    assert pair["scale"] == [0, 5] and pair["cosine"] == pytest.approx(1, abs=1e-5)


def test_train_with_own_texts(run: Run, recipe: str, tiny_bert: Path, tmp_path: Path) -> None:
    stage = contrast_stage(tmp_path / "nowhere.txt", select={"task": "STS-B"})
    stage["data"]["sources"] = [{"name": "wiki"}]
    contrast = toy_recipe(tmp_path / "contrast.yaml", tiny_bert, stage)
    own = toy_text_file(tmp_path / "it's my own.txt", 24, more="\n \nthe cat\nthe cat\n")
    ran = run("train", contrast, "--texts", own, "-o", tmp_path / "model", "--json")
    assert ran.code == 0, ran.err
    assert "2 blank and 1 repeated texts were left out, 25 are used" in ran.err
    assert "STS-B is not here" in ran.err and "too few examples to hold any out" in ran.err
    found = json.loads(ran.out)
    assert found["report"] is None
    assert [entry for entry in found["log"]["contrast"] if "contrast" in entry]
    record = yaml.safe_load((tmp_path / "model" / "run" / "recipe.yaml").read_text())
    assert record["stages"][0]["data"] == {"kind": "texts", "sources": [{"file": str(own)}]}
    assert isinstance(tertium.load(tmp_path / "model", engine="torch"), Encoder)


def test_train_with_own_texts_that_do_not_fit(
    run: Run, recipe: str, tiny_bert: Path, tmp_path: Path
) -> None:
    own = toy_text_file(tmp_path / "own.txt", 5)
    contrast = toy_recipe(tmp_path / "contrast.yaml", tiny_bert, contrast_stage(own))
    for name, message in (
        (contrast, "5 different examples do not fill one batch of 8"),
        (recipe, "does not learn from single texts: --texts replaces nothing"),
    ):
        ran = run("train", name, "--texts", own, "-o", tmp_path / "model")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: ") and message in ran.err
        assert not (tmp_path / "model").exists()


def test_train_refuses_and_resumes(run: Run, recipe: str, tmp_path: Path) -> None:
    output = tmp_path / "model"
    assert run("train", recipe, "-o", output).code == 0
    again = run("train", recipe, "-o", output)
    assert again.code == 2 and again.err.startswith("error: ") and "--resume" in again.err
    assert run("train", recipe, "-o", output, "--resume").code == 0
    changed = run("train", recipe, "-o", output, "--resume", "--seed", 9)
    assert changed.code == 2 and "its own recipe" in changed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "stages.own.objectives.0.threshold=0.6"), "half the labels' step"),
        (("--set", "stages.other.train.epochs=1"), "no 'other' here"),
        (("--data", "./nowhere"), "no such data folder"),
    ],
)
def test_train_mistakes_are_the_users(
    run: Run, recipe: str, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    ran = run("train", recipe, "-o", tmp_path / "model", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ") and message in ran.err
    assert not (tmp_path / "model").exists()


def test_train_with_bad_pairs_leaves_nothing(run: Run, recipe: str, tmp_path: Path) -> None:
    bad = toy_pairs(tmp_path / "bad.tsv", 1, 2, 9)
    ran = run("train", recipe, bad, "-o", tmp_path / "model")
    assert ran.code == 2 and "bad.tsv:4" in ran.err and "from 0 to 5" in ran.err
    assert not (tmp_path / "model").exists()


def test_an_unknown_recipe(run: Run, tmp_path: Path) -> None:
    ran = run("train", "sts-regresion-minilm", "-o", tmp_path / "model")
    assert ran.code == 2 and "Did you mean 'sts-regression-minilm'" in ran.err


# recipes


def test_recipes_are_listed(run: Run) -> None:
    ran = run("recipes")
    assert ran.code == 0
    rows = json.loads(run("recipes", "--json").out)["recipes"]
    assert [row["name"] for row in rows] == recipe_names()
    for row in rows:
        assert list(row) == ["name", "summary", "published"]
        assert row["name"].split("-")[0] in ran.out


def test_a_recipe_is_explained(run: Run, recipe: str) -> None:
    ran = run("recipes", "sts-regression-bert")
    assert ran.code == 0 and "stages:" in ran.out and "--set" in ran.out
    explained = json.loads(run("recipes", "sts-regression-bert", "--json").out)
    assert explained["published"] == 76.03
    assert explained["stages"][0]["train"]["learning_rate"] == 5e-5
    assert json.loads(run("recipes", recipe, "--json").out)["summary"] == "a toy"
    assert run("recipes", "nothing-like-it").code == 2


# sweep


def test_a_sweep_of_one_run(run: Run, recipe: str, benchmarks_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    content = {
        "summary": "slopes",
        "recipe": recipe,
        "grid": {"stages.own.objectives.0.slope": [2.5]},
        "seeds": [1],
    }
    path.write_text(yaml.safe_dump(content))
    arguments = ("sweep", path, "-o", tmp_path / "runs", "--data", benchmarks_folder, "--json")
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert list(found) == ["summary", "seeds", "runs", "data"]
    assert found["runs"]["slope=2.5"]["1"].keys() >= {"average", "leak_free", "seconds", "STS-B"}
    assert not list((tmp_path / "runs").rglob("model.safetensors"))
    assert (tmp_path / "runs" / "slope=2.5-seed1" / "run" / "recipe.yaml").exists()
    again = run(*arguments)
    assert "1 of them finished before" in again.err
    assert json.loads(again.out) == found
    assert "| slope=2.5 | 1 |" in run(*arguments[:-1]).out


def test_a_sweep_that_fails_says_why(run: Run, recipe: str, tmp_path: Path) -> None:
    ran = run("sweep", "nothing-like-it", "-o", tmp_path / "runs")
    assert ran.code == 2 and "No sweep" in ran.err
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"summary": "s", "recipe": recipe, "set": ["a=1"]}))
    ran = run("sweep", path, "-o", tmp_path / "runs")
    assert ran.code == 2 and "has mistakes" in ran.err and not (tmp_path / "runs").exists()
