import json
from pathlib import Path

import numpy as np
import pytest

import tertium
from tests.cli.conftest import Run
from tests.cli.test_process import BLOCKED, start
from tests.fakes import tiny_model

pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer: the tests of this file share its export."""
    return tiny_model(tmp_path_factory.mktemp("flat") / "flat-bert", layers=1)


def test_figures_and_the_change_on_sts(run: Run, model: Path, small_data: Path) -> None:
    shown = run("export", model, "--engine", "onnx-int8", "--data", small_data)
    assert shown.code == 0, shown.err
    assert "cosine to torch 0.99" in shown.out and "sts: torch " in shown.out
    assert "MB" in shown.err
    found = json.loads(
        run("export", model, "--engine", "onnx-int8", "--data", small_data, "--json").out
    )
    assert found["engine"] == "onnx-int8" and found["output"] is None
    (part,) = found["parts"]
    assert part["parity"]["measure"] == "cosine" and part["parity"]["mean"] > 0.99
    assert part["bytes"] > 0 and Path(part["folder"]).is_dir()
    change = found["evaluation"]
    assert change["engine"] - change["torch"] == pytest.approx(change["change"])


def test_a_folder_of_its_own(run: Run, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    options = ("--engine", "onnx", "-o", output, "--no-evaluation", "--json")
    found = json.loads(run("export", model, *options).out)
    assert found["output"] == str(output) and found["evaluation"] is None
    assert Path(found["parts"][0]["folder"]).is_relative_to(output)
    again = run("export", model, *options)
    assert again.code == 2 and "not empty" in again.err


def test_a_static_model(run: Run, model: Path, tmp_path: Path) -> None:
    output = tmp_path / "static"
    shown = run("export", model, "--engine", "static", "-o", output, "--no-evaluation")
    assert shown.code == 0, shown.err
    assert "32 dimensions; rank correlation with torch" in shown.out
    found = run("compare", "a cat", "a dog", "--model", output, "--json")
    assert json.loads(found.out)["pairs"][0]["scale"] == [-1.0, 1.0]
    options = ("--engine", "static", "--no-evaluation", "--json")
    found = json.loads(run("export", model, *options).out)
    assert found["parts"][0]["parity"] is None


def test_every_command_takes_an_engine(
    run: Run, model: Path, small_data: Path, tmp_path: Path
) -> None:
    texts, pairs = tmp_path / "texts.txt", tmp_path / "pairs.tsv"
    texts.write_text("a cat\na dog barks\n")
    pairs.write_text("sentence1\tsentence2\na cat\ta dog\n")
    chosen = ("--model", model, "--engine", "onnx")
    compared = json.loads(run("compare", "a cat", "a dog", *chosen, "--json").out)["pairs"]
    exact = json.loads(run("compare", "a cat", "a dog", "--model", model, "--json").out)["pairs"]
    assert compared[0]["score"] == pytest.approx(exact[0]["score"], abs=1e-5)
    assert run("encode", texts, "-o", tmp_path / "v.npy", *chosen).code == 0
    expected = tertium.load(model).encode(["a cat", "a dog barks"])  # type: ignore[union-attr]
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    assert run("score", pairs, "-o", tmp_path / "s.jsonl", *chosen).code == 0
    scored = json.loads((tmp_path / "s.jsonl").read_text())
    assert scored["similarity"] == pytest.approx(exact[0]["score"], abs=1e-4)
    options = ("--engine", "onnx", "--data", small_data, "--bootstrap", 0, "--json")
    report = json.loads(run("evaluate", model, *options).out)
    assert report["results"]["sts"]["average"] is not None


@pytest.mark.parametrize("command", [("compare", "a", "b"), ("export",), ("evaluate",)])
def test_an_unknown_engine(run: Run, command: tuple[str, ...]) -> None:
    ran = run(*command, "--engine", "onx")
    assert ran.code == 2 and "No engine 'onx'. Did you mean 'onnx'?" in ran.err


def test_auto_needs_no_tuning(run: Run, model: Path, tmp_path: Path) -> None:
    other = tiny_model(tmp_path / "other", layers=2)
    ran = run("compare", "a", "b", "--model", other, "--engine", "auto", "--json")
    assert ran.code == 0 and json.loads(ran.out)
    assert "tertium tune" not in ran.err


def test_tuning(run: Run, model: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a cat\n\na dog barks\n")
    ran = run("tune", "--model", model, "--seconds", 0.1, "--texts", texts, "--exact")
    assert ran.code == 0, ran.err
    assert "texts/s" in ran.out and "--engine auto is now" in ran.err
    options = ("--model", model, "--seconds", 0.1, "--texts", texts, "--exact", "--json")
    (part,) = json.loads(run("tune", *options).out)["parts"]
    best = part["trials"][0]
    assert best["texts_per_second"] >= part["trials"][-1]["texts_per_second"] > 0
    ran = run("compare", "a", "b", "--model", model, "--engine", "auto", "--json")
    assert ran.code == 0 and "runs on torch" not in ran.err


@pytest.mark.slow
def test_an_engine_needs_no_network(run: Run, model: Path) -> None:
    engine = "openvino-int8"  # the one whose maker counts its users
    made = run("export", model, "--engine", engine, "--no-evaluation")
    if "does not run on this processor" in made.err:
        pytest.skip(made.err.strip())
    assert made.code == 0, made.err
    command = ("compare", "a", "b", "--model", str(model), "--engine", engine, "--json")
    ran = start("-c", BLOCKED, *command)
    assert (ran.returncode, ran.stderr) == (0, "")
