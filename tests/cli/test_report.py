import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.recipes.toys import toy_pairs

pytestmark = pytest.mark.integration


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return toy_pairs(tmp_path / "own.tsv")


def test_a_page_and_its_numbers(run: Run, tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "report"
    ran = run("report", tiny_bert, "--pairs", pairs, "-o", output, "--bootstrap", 20, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert list(found) == [
        *("output", "page", "files", "models", "broken", "sets", "sections", "left_out"),
        "provenance",
    ]
    assert all((output / file).is_file() for file in found["files"])
    assert f"tertium report {tiny_bert}" in (output / "index.html").read_text(encoding="utf-8")
    again = run("report", tiny_bert, "--pairs", pairs, "-o", output, "--bootstrap", 20)
    assert again.code == 0 and "1 models" not in again.out and "index.html: 1 model," in again.out
    assert "left out: runs: no runs were given" in again.err


def test_the_exit_code_tells_of_a_broken_model(
    run: Run, tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ran = run(
        *("report", tiny_bert, tmp_path / "empty", "--pairs", pairs, "-o", tmp_path / "report"),
        *("--bootstrap", 20),
    )
    assert ran.code == 2
    assert "error: empty, while loading:" in ran.err and "does not contain a model" in ran.err
    assert (tmp_path / "report" / "index.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "missing.tsv"], "no such file"),
        (["--sets", "STSB"], "Did you mean 'STS-B'?"),
        (["--runs", "."], "contains no finished run"),
        (["--data", "nowhere"], "no such data folder"),
    ],
)
def test_mistakes_leave_nothing(
    arguments: list[str], message: str, run: Run, tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    ran = run("report", tiny_bert, "-o", tmp_path / "report", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err and not (tmp_path / "report").exists()
