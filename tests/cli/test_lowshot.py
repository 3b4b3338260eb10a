"""``tertium lowshot`` from end to end, its trainings in this process."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tertium.recipes import sweep as module
from tertium.recipes.train import train
from tests.cli.conftest import Run
from tests.recipes.toys import (
    contrast_stage,
    folder_of,
    seed_of,
    settings_of,
    toy_benchmarks,
    toy_recipe,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def recipes(tiny_bert: Path, tmp_path: Path) -> str:
    stage = contrast_stage(tmp_path / "nowhere.txt")
    stage["data"]["sources"] = [{"name": "wiki"}]
    micse = {
        **stage,
        "momentum": {"queue": 12},
        "objectives": [{"kind": "info_nce"}, {"kind": "attention_mi", "weight": 0.01}],
    }
    files = [
        toy_recipe(tmp_path / f"{name}.yaml", tiny_bert, content)
        for name, content in (("simcse", stage), ("micse", micse))
    ]
    return ", ".join(files)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were trained."""
    seen: list[str] = []

    def run(command: list[str], **_: Any) -> Any:
        seen.append(folder_of(command).name)
        train(
            command[4],
            folder_of(command),
            data=Path(command[command.index("--data") + 1]),
            resume="--resume" in command,
            seed=seed_of(command),
            settings=settings_of(command),
            progress=False,
        )
        return subprocess.CompletedProcess(command, 0)

    stand_in = SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(module, "subprocess", stand_in)
    return seen


def test_two_recipes_on_two_sizes_with_two_seeds(
    run: Run, recipes: str, trained: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "runs"
    arguments = ("lowshot", recipes, "-o", output, "--sizes", "8,16", "--seeds", 2, "--steps", 2)
    arguments += ("--data", toy_benchmarks(tmp_path / "data"))
    ran = run(*arguments, "--json")
    assert ran.code == 0, ran.err
    assert len(trained) == 8
    found = json.loads(ran.out)
    assert list(found) == ["steps", "recipes", "subsets"] and found["steps"] == 2
    assert found == json.loads((output / "table.json").read_text())
    assert [*found["recipes"]] == recipes.split(", ")
    for by_size in found["recipes"].values():
        assert [*by_size] == ["8", "16"]
        for cell in by_size.values():
            assert list(cell) == ["averages", "mean", "sd"] and len(cell["averages"]) == 2
    values = [c["averages"] for by_size in found["recipes"].values() for c in by_size.values()]
    assert len({value for cell in values for value in cell}) > 4  # seeds and sizes matter
    for name, start in (("curves.png", b"\x89PNG"), ("curves.svg", b"<?xml")):
        content = (output / name).read_bytes()
        assert content.startswith(start) and len(content) > 5000
    assert not list(output.rglob("*.safetensors"))

    again = run(*arguments)  # for people; all is finished
    assert again.code == 0 and len(trained) == 8
    assert again.out.strip() == (output / "table.md").read_text("utf-8").strip()
    assert "8 of them finished before" in again.err and "curves.svg" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("simcse-minilm", "--sizes", "100,many"), "--sizes 100,many: write whole numbers"),
        (("simcse-minilm", "--sizes", "100,"), "write whole numbers, separated by commas"),
        (("simcse-minilm", "--sizes", "100,100"), "every size once"),
        (("simcse-minilm", "--sizes", "10"), "10 sentences do not fill simcse-minilm's batch"),
        (("simcse-minlm",), "Did you mean 'simcse-minilm'"),
        (("sts-regression-minilm",), "learns from graded, not from texts"),
    ],
)
def test_mistakes_are_the_users(
    run: Run, trained: list[str], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    ran = run("lowshot", *arguments, "-o", tmp_path / "runs")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ") and message in ran.err
    assert not trained and not (tmp_path / "runs").exists()
