import json
import os
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import tertium
from tertium.models.surgery import join_towers
from tertium.records.manifest import FILE_NAME
from tertium.types import Pooling
from tests.cli.conftest import Run
from tests.contrastive_folders import trained_folder
from tests.models.test_towers import loaded, other_weights

pytestmark = pytest.mark.integration

TEXTS = ["the cat sleeps .", "a dog"]


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize("pooling", ["cls", "cls_mlp"])
def test_convert_a_training_folder(
    run: Run,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    architecture: str,
    pickled: bool,
    pooling: str,
) -> None:
    base = request.getfixturevalue(f"tiny_{architecture}")
    source = trained_folder(base, tmp_path / "source", pickled=pickled)
    output = tmp_path / "output"
    ran = run("convert", source, "-o", output, "--pooling", pooling, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "source": str(source),
        "output": str(output),
        "pooling": pooling,
        "dimension": 32,
    }
    assert {FILE_NAME, "modules.json", "model.safetensors"} <= {p.name for p in output.iterdir()}
    assert not list(output.rglob("*.bin"))
    expected = tertium.load(source, pooling=pooling).encode(TEXTS)
    again = tertium.load(output)
    assert again.pooling is Pooling(pooling)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)
    stock = SentenceTransformer(str(output), device="cpu")
    np.testing.assert_allclose(stock.encode(TEXTS), expected, atol=1e-5)


def test_convert_says_what_it_left_out(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    source = trained_folder(tiny_bert, tmp_path / "source")
    ran = run("convert", source, "-o", tmp_path / "output")
    assert (ran.code, ran.out) == (0, "")
    assert "note:" in ran.err and "--pooling cls_mlp" in ran.err
    assert f"{tmp_path / 'output'}: pooling cls, vectors of width 32" in ran.err


def test_convert_a_plain_folder_into_an_empty_one(
    run: Run, tiny_bert: Path, tmp_path: Path
) -> None:
    ran = run("convert", tiny_bert, "-o", tmp_path, "--json")
    assert json.loads(ran.out)["pooling"] == "mean"
    expected = tertium.load(tiny_bert).encode(TEXTS)
    np.testing.assert_allclose(tertium.load(tmp_path).encode(TEXTS), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SOURCE", "-o", "full/file"], "full/file exists and is not empty"),
        (["SOURCE", "-o", "full/file/new"], "full/file"),
        (["SOURCE", "-o", "SOURCE"], "exists and is not empty"),
        (["nobody/nothing", "-o", "new", "--revision", "refs/pr/1"], "nobody/nothing"),
        (["full/file", "-o", "new"], "is a file"),
        (["full", "-o", "new"], "does not contain a model"),
        (["", "-o", "new"], "does not contain a model"),
        (["SOURCE"], "Usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_a_sentence_and_leave_nothing_behind(
    run: Run,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/file").write_text("kept")
    source = trained_folder(tiny_bert, tmp_path / "source")
    before = sorted(tmp_path.rglob("*"))
    ran = run("convert", *(str(source) if word == "SOURCE" else word for word in arguments))
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err and "Traceback" not in ran.err
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("full/file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    ran = run("convert", tiny_bert, "-o", closed / "new")
    assert ran.code == 2 and "closed" in ran.err


def test_convert_writes_the_towers_of_a_twin(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    encoder = loaded(tiny_bert)
    twin = join_towers(encoder, other_weights(encoder))
    twin.save(tmp_path / "twin")
    output = tmp_path / "towers"
    ran = run("convert", tmp_path / "twin", "-o", output, "--towers", "--json")
    assert (ran.code, ran.err) == (0, "")
    folders = json.loads(ran.out)["towers"]
    assert folders == [str(output / "first"), str(output / "second")]
    towers = [SentenceTransformer(folder, device="cpu").encode(TEXTS) for folder in folders]
    np.testing.assert_allclose(towers[0], encoder.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(towers[0] + towers[1], twin.encode(TEXTS), atol=1e-5)
    ran = run("convert", tmp_path / "twin", "-o", tmp_path / "x", "--towers", "--pooling", "mean")
    assert ran.code != 0 and "omit --pooling" in ran.err
    ran = run("convert", tiny_bert, "-o", tmp_path / "y", "--towers")
    assert ran.code == 2 and "it has one tower" in ran.err
    assert not (tmp_path / "y").exists()
