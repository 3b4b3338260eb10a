"""What a text may hold, a terminal must not obey."""

import ast
import json
import unicodedata
from pathlib import Path

import pytest

import tertium.cli
from tertium.cli.output import visible
from tertium.data.readers import read_rows
from tertium.data.rows import Pair
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration

# Red, a title for the window, an eight-bit command, a carriage return, a right-to-left override.
NASTY = "\x1b[31mcat\x1b]0;owned\x07 \x9b2J dog\rx \u202eabc \x7f"


def obeyed(text: str) -> set[str]:
    """Characters that a terminal would not print."""
    return {
        character
        for character in text
        if (unicodedata.category(character) == "Cc" and character not in "\n\t")
        or character == "\u202e"
    }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [NASTY.replace("\r", ""), "the cat sleeps .", NASTY.replace("\r", "")]
    Path("texts.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [{"sentence1": NASTY, "sentence2": "a dog", NASTY: NASTY, "score": NASTY}]
    Path("pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return tmp_path


def test_what_becomes_visible() -> None:
    assert visible("\x1b[0m\x9b\x7f\r\u202e") == "\\x1b[0m\\x9b\\x7f\\x0d\\u202e"
    kept = "tab\tline\n café 猫 \u200e 👩‍👧 שלום"
    assert visible(kept) == kept


@pytest.mark.parametrize(
    "command",
    [
        ("compare", NASTY, NASTY, "-m", "MODEL"),
        ("explain", NASTY, "a dog", "-m", "MODEL"),
        ("augment", NASTY, "--view", "delete", "-m", "MODEL"),
        ("augment", NASTY, "-m", "MODEL"),
        ("focus", NASTY, "a dog", "--on", NASTY, "-m", "MODEL"),
        ("index", "search", "index", NASTY),
        ("index", "stats", "index"),
        ("cluster", "texts.txt", "-o", "out.tsv", "--k", 1, "-m", "MODEL"),
        ("data", "check", "pairs.jsonl"),
        ("data", "check", f"no{NASTY}.tsv"),
        ("compare", "a", "b", "-m", f"./{NASTY}"),
        ("score", "pairs.jsonl", "-o", "out.tsv", "-m", "MODEL"),
        ("recipes", NASTY),
    ],
    ids=lambda command: " ".join(map(str, command[:2])).encode("unicode_escape").decode()[:20],
)
def test_no_command_lets_a_text_command_the_terminal(
    command: tuple[object, ...], run: Run, tiny_bert: Path, files: Path
) -> None:
    assert run("index", "build", "texts.txt", "-o", "index", "-m", tiny_bert).code == 0
    ran = run(*(tiny_bert if argument == "MODEL" else argument for argument in command))
    assert obeyed(ran.out + ran.err) == set()
    assert ran.out + ran.err


def test_json_says_the_same_without_the_characters(run: Run, tiny_bert: Path) -> None:
    ran = run("compare", NASTY, "a dog", "-m", tiny_bert, "--json")
    assert obeyed(ran.out) == set()
    assert json.loads(ran.out)["pairs"][0]["a"] == NASTY


def test_commands_print_through_one_module() -> None:
    folder = Path(tertium.cli.__file__).parent
    for path in folder.glob("*.py"):
        if path.name == "output.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        own = {"echo"} if path.name == "__init__.py" else set()  # the version
        assert ({"echo", "secho"} & names) - own == set(), path.name
        assert {"Text", "Console", "Table", "print"} & calls == set(), path.name


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl"])
def test_scores_are_raw_unless_a_spreadsheet_reads_them(
    ending: str, safe: bool, run: Run, tiny_bert: Path, files: Path
) -> None:
    Path("own.jsonl").write_text('{"sentence1": "=1+1", "sentence2": "-2 degrees"}\n')
    option = ["--spreadsheet-safe"] if safe else []
    ran = run("score", "own.jsonl", "-o", f"out.{ending}", "-m", tiny_bert, *option)
    assert ran.code == 0, ran.err
    (row,) = read_rows(Path(f"out.{ending}"), Pair)
    escaped = safe and ending != "jsonl"
    assert row.sentence1 == ("'=1+1" if escaped else "=1+1")
    assert row.sentence2 == ("'-2 degrees" if escaped else "-2 degrees")
