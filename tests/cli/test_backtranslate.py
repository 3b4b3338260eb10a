import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.translators import tiny_nllb

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_nllb(tmp_path_factory.mktemp("nllb") / "nllb")


def test_a_file_for_each_pivot(run: Run, nllb: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat sleeps .\n\na dog barks\n")
    command = ["backtranslate", texts, "-o", tmp_path / "out", "--pivot", "deu_Latn, fra_Latn"]
    command += ["--to", nllb, "--language", "eng_Latn", "--max-length", 24, "--beams", 1]
    ran = run(*command, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)["pivots"]
    assert [trip["pivot"] for trip in found] == ["deu_Latn", "fra_Latn"]
    for trip in found:
        assert trip["texts"] == 3 and 1 <= trip["unchanged"] <= 3
        lines = Path(trip["file"]).read_text().split("\n")
        assert len(lines) == 4 and lines[1] == "" and lines[0] and lines[2]
    again = run("rtt", *command[1:])  # the command's name before
    assert again.code == 0 and "deu_Latn.txt: 3 texts" in again.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["texts.txt", "-o", "out", "--pivot", "dee"], "Did you mean 'de'"),
        (["texts.txt", "-o", "out", "--pivot", ","], "not a language code"),
        (["texts.txt", "-o", "out", "--pivot", "en"], "already"),
        (["texts.txt", "-o", "out", "--to", "./nothing"], "no folder"),
        (["texts.txt", "-o", "out", "--to", "BERT"], "is not a translation model"),
        (["empty.txt", "-o", "out"], "empty.txt"),
        (["texts.txt"], "Usage"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_leave_nothing_behind(
    run: Run,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a b\n")
    Path("empty.txt").write_text("")
    ran = run("backtranslate", *(tiny_bert if word == "BERT" else word for word in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert not Path("out").exists()
