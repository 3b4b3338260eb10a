import json
from pathlib import Path

import numpy as np
import pytest

import tertium
from tests.cli.conftest import Run
from tests.fakes import tiny_model

pytestmark = pytest.mark.integration

TEXTS = ["the cat sleeps .", "a dog"]


def test_two_models_as_one(
    run: Run, tiny_bert: Path, tiny_roberta: Path, tmp_path: Path, small_data: Path
) -> None:
    both = tmp_path / "both"
    ran = run("ensemble", tiny_bert, tiny_roberta, "-o", both, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "output": str(both),
        "members": [
            {"name": str(tiny_bert), "weight": 1.0},
            {"name": str(tiny_roberta), "weight": 1.0},
        ],
        "pooling": "mean",
        "dimension": 32,
    }
    expected = sum(tertium.load(model).encode(TEXTS) for model in (tiny_bert, tiny_roberta))
    np.testing.assert_allclose(tertium.load(both).encode(TEXTS), expected, atol=1e-5)

    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    assert run("encode", texts, "-o", tmp_path / "v.npy", "-m", both).code == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    ran = run("compare", *TEXTS, "-m", both, "--json")
    found = json.loads(ran.out)["pairs"][0]
    assert found["score"] == found["cosine"] and found["scale"] == [-1, 1]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\n" + "\t".join(TEXTS) + "\n")
    assert run("score", pairs, "-o", tmp_path / "s.tsv", "-m", both).code == 0
    ran = run("evaluate", both, "--data", small_data, "--bootstrap", 0, "--json")
    assert ran.code == 0 and "average" in ran.out
    assert run("convert", both, "-o", tmp_path / "copy").code == 0
    np.testing.assert_allclose(tertium.load(tmp_path / "copy").encode(TEXTS), expected, atol=1e-5)


def test_a_weight_for_the_last(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    ran = run("ensemble", tiny_bert, tiny_bert, "-o", tmp_path / "e", "--weight", 0.75)
    assert ran.code == 0
    assert f"0.25 * {tiny_bert} + 0.75 * {tiny_bert}, vectors of width 32" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["BERT", "WIDE", "-o", "new"], "different widths"),
        (["BERT", "-o", "new", "--weight", "0.5"], "at least two models"),
        (["BERT", "BERT", "-o", "new", "--weight", "nan"], "between 0 and 1, got nan"),
        (["-o", "new"], "Usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes(
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
    names = {"BERT": tiny_bert, "WIDE": tiny_model(tmp_path / "wide", width=48)}
    ran = run("ensemble", *(names.get(word, word) for word in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert not Path("new").exists() and Path("full/file").read_text() == "kept"


def test_what_looks_into_a_model_refuses_two(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    run("ensemble", tiny_bert, tiny_bert, "-o", tmp_path / "e")
    ran = run("augment", "a b c", "-m", tmp_path / "e")
    assert ran.code == 2 and "ensemble of 2 models" in ran.err
