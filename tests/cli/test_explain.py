import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.models.test_conditional import scorer_of

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def conditional(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained") / "model"
    scorer_of(tiny_bert, {"kind": "seaver"}).save(folder)
    return folder


def test_in_the_terminal(run: Run, tiny_bert: Path) -> None:
    ran = run("explain", "the [red] cat", "a dog", "-m", tiny_bert, "--method", "gradients")
    assert ran.code == 0, ran.err
    assert "on a scale from -1 to 1" in ran.out and "completeness error" in ran.out
    assert len(re.findall(r"[+-]\d\.\d\d", ran.out)) >= 2 * 7  # two numbers for each word
    assert "cosines of words" in ran.out and "[" in ran.out


def test_as_json_and_as_files(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"why.{ending}" for ending in ("html", "png", "svg")]
    options = [part for file in files for part in ("-o", file)]
    ran = run("explain", "the cat", "a dog", "-m", tiny_bert, *options, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["files"] == [str(file) for file in files]
    assert [word["word"] for word in found["texts"][0]["words"]] == ["the", "cat"]
    assert found["gradients"] is None and found["attention"] is None and found["notes"] == []
    assert all(file.stat().st_size > 1000 for file in files)


def test_under_a_condition(run: Run, conditional: Path) -> None:
    ran = run("explain", "the cat", "a dog", "--on", "the y", "-m", conditional)
    assert ran.code == 0, ran.err
    assert "with respect to: the y" in ran.out and "reallocated" in ran.out
    ran = run("explain", "the cat", "a dog", "--on", "the y", "-m", conditional, "--json")
    attention = json.loads(ran.out)["attention"]
    assert len(attention["without_condition"]) == len(attention["reallocated"]) == 4


def test_a_model_that_reallocates_nothing(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    scorer_of(tiny_bert, {"kind": "bi"}).save(tmp_path / "bi")
    ran = run("explain", "the cat", "a dog", "--on", "the y", "-m", tmp_path / "bi")
    assert ran.code == 0, ran.err
    assert "with it" in ran.out and "reallocated" not in ran.out


def test_without_its_condition(run: Run, conditional: Path) -> None:
    ran = run("explain", "the cat", "a dog", "-m", conditional)
    assert ran.code == 0 and ran.err.count("have no condition") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "why.pdf"], "must be one of .html, .png, .svg"),
        (["--method", "shap"], "No method 'shap'"),
        (["--on", "the colour"], "does not take conditions"),
        (["--by", "0"], "more than 0"),
    ],
)
def test_what_can_be_mended(run: Run, tiny_bert: Path, options: list[str], message: str) -> None:
    ran = run("explain", "the cat", "a dog", "-m", tiny_bert, *options)
    assert ran.code == 2 and message in ran.err and not ran.out


def test_absurd_texts(run: Run, tiny_bert: Path) -> None:
    assert run("explain", "", " ", "-m", tiny_bert).code == 2
    ran = run("explain", "the cat", "", "-m", tiny_bert)
    assert ran.code == 0 and "(no words)" in ran.out
    ran = run("explain", "a b " * 300, "🎸", "-m", tiny_bert, "--most", "1")
    assert ran.code == 0 and "contribute less" in ran.out
    assert "was scored by its passages" in " ".join(ran.out.split())
