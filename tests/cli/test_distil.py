import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tertium
from tests.cli.conftest import Run
from tests.fakes import tiny_model
from tests.forking import fork_command
from tests.recipes.toys import toy_text_file

pytestmark = pytest.mark.integration


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inner = tmp_path / "work" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)  # where no benchmark sets are found
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
    return toy_text_file(tmp_path / "texts.txt")


def test_every_option_reaches_the_recipe(
    run: Run, tiny_bert: Path, tiny_roberta: Path, texts: Path, tmp_path: Path
) -> None:
    command = ["distil", tiny_bert, tiny_roberta, "--student", tiny_bert, "--texts", texts]
    command += ["-o", tmp_path / "m", "--weight", 0.7, "--pooling", "cls", "--max-length", 12]
    command += ["--steps", 2, "--batch-size", 8, "--learning-rate", 1e-4, "--seed", 7, "--json"]
    command += ["--epochs", 3, "--set", "stages.distil.select=null"]
    ran = run(*command)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["model"] == str(tmp_path / "m") and "distil" in found["log"]
    model = tertium.load(tmp_path / "m")
    assert (model.pooling, model.max_length) == ("cls", 12)
    recipe = (tmp_path / "m" / "run" / "recipe.yaml").read_text()
    for said in ("weight: 0.7", "max_steps: 2", "batch_size: 8", "0.0001", "seed: 7", "epochs: 3"):
        assert said in recipe
    card = (tmp_path / "m" / "README.md").read_text("utf-8")
    assert f"# {tiny_bert} + {tiny_roberta} distilled into {tiny_bert}" in card
    assert "Made by `tertium distil" in card
    assert "holds a run already" in run(*command).err


def test_other_widths_are_noted(run: Run, tiny_bert: Path, texts: Path, tmp_path: Path) -> None:
    wide = tiny_model(tmp_path / "wide", width=48)
    common = [wide, "--student", tiny_bert, "--texts", texts, "--steps", 1, "--batch-size", 8]
    ran = run("distil", *common, "-o", tmp_path / "narrow")
    assert ran.code == 0 and "note: The teacher's vectors have width 48" in ran.err
    ran = run("distil", *common, "-o", tmp_path / "kept", "--keep-projection")
    assert ran.code == 0 and "note: The teacher's" not in ran.err
    assert tertium.load(tmp_path / "kept").dimension == 48


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["BERT", "--texts", "TEXTS", "--weight", "0.7"], "needs at least two models"),
        (["BERT", "BERT", "--texts", "TEXTS", "--weight", "2"], "weight"),
        (["./nothing", "--texts", "TEXTS"], "no folder"),
        (["BERT", "--texts", "nothing.txt"], "nothing.txt"),
        (["BERT", "--texts", "TEXTS", "--student", "./nothing"], "no folder"),
        (["BERT", "--texts", "TEXTS", "--pooling", "csl"], "pooling"),
        (["BERT", "--texts", "TEXTS", "--learning-rate", "0"], "learning_rate"),
        (["BERT", "--texts", "EMPTY"], "empty.txt"),
        (["BERT", "--texts", "BLANK"], "0 different examples"),
        (["--texts", "TEXTS"], "Usage"),
        (["BERT"], "Usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_leave_nothing_behind(
    run: Run, tiny_bert: Path, texts: Path, arguments: list[str], said: str
) -> None:
    names = {"BERT": tiny_bert, "TEXTS": texts}
    for name, content in (("EMPTY", ""), ("BLANK", "  \n\n")):
        names[name] = texts.with_name(f"{name.lower()}.txt")
        names[name].write_text(content)
    words = [names.get(word, word) for word in arguments]
    if "--student" not in words:
        words += ["--student", tiny_bert]
    ran = run("distil", *words, "-o", "out")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert not Path("out").exists()


@pytest.mark.slow
def test_a_killed_command_resumes(tiny_bert: Path, texts: Path, tmp_path: Path) -> None:
    command = ["distil", tiny_bert, "--student", tiny_bert, "--texts", texts, "--steps", 60]
    command += ["--batch-size", 8, "--learning-rate", 0.001, "--no-evaluation"]
    command += ["--set", "stages.distil.select=null"]
    command += ["--set", "stages.distil.train.checkpoint_every=5"]
    errors = tmp_path / "errors.txt"
    killed = fork_command(*command, "-o", tmp_path / "killed", errors=errors)
    stage = tmp_path / "killed" / "run" / "0-distil"
    killed.kill_when(lambda: list(stage.glob("checkpoint-*/complete")))
    assert (stage / "teacher.npy").exists() and not (stage / "finished.json").exists()
    for folder, more in (("killed", ["--resume"]), ("whole", [])):
        again = fork_command(*command, "-o", tmp_path / folder, *more, errors=errors)
        assert again.wait() == 0, errors.read_text()
    one, two = (load_file(tmp_path / f / "model.safetensors") for f in ("killed", "whole"))
    assert all(torch.equal(one[name], two[name]) for name in one)
