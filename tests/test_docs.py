"""The documentation is true: snippets run and print what the pages say, links lead somewhere."""

import re
import runpy
import socket
from pathlib import Path

import pytest

from tools import reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SNIPPETS = {path.stem: path for path in sorted((DOCS / "snippets").glob("*.py"))}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = ("report_on_models",)  # its page has a snippet that does the same

NEEDS = re.compile(r"^# needs: benchmark data\n")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def shown(snippet: Path) -> str:
    """A snippet as a page shows it."""
    return NEEDS.sub("", snippet.read_text(encoding="utf-8"))


def python_blocks(page: Path) -> list[tuple[str, str | None]]:
    """Python blocks of a page, each with the block of output that directly follows it."""
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for at, fence in enumerate(fences):
        following = fences[at + 1] if at + 1 < len(fences) else None
        adjacent = following is not None and not text[fence.end() : following.start()].strip()
        output = following[2] if following and adjacent and following[1] == "text" else None
        if fence[1] == "python":
            found.append((fence[2], output))
    return found


OUTPUTS = {code: output for page in PAGES for code, output in python_blocks(page) if output}


def words(text: str) -> list[str]:
    """What a print-out says apart from its numbers."""
    return NUMBER.sub("#", text).split()


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


@pytest.fixture
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("documentation runs without a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.integration
@pytest.mark.usefixtures("_no_sockets")
@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(
            path,
            id=name,
            marks=pytest.mark.data if NEEDS.match(path.read_text()) or name == "mteb" else (),
        )
        for name, path in SNIPPETS.items()
    ],
)
def test_snippet_runs_and_prints_what_its_page_shows(
    snippet: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if request.node.get_closest_marker("data"):
        monkeypatch.setenv("TERTIUM_DATA", str(request.getfixturevalue("data_folder")))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(snippet), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed
    expected = OUTPUTS.get(shown(snippet))
    if expected is not None:
        assert words(printed) == words(expected)
        assert numbers(printed) == pytest.approx(numbers(expected), abs=0.011)


@pytest.mark.integration
@pytest.mark.usefixtures("_no_sockets")
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in LONG else [])
        for path in EXAMPLES
    ],
)
def test_example_runs(
    example: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_python_block_is_a_snippet(page: Path) -> None:
    known = {shown(snippet) for snippet in SNIPPETS.values()}
    for code, _ in python_blocks(page):
        assert code in known or code.startswith(">>>"), f"no file in docs/snippets holds:\n{code}"


def test_every_snippet_is_shown() -> None:
    blocks = {code for page in PAGES for code, _ in python_blocks(page)}
    assert [name for name, path in SNIPPETS.items() if shown(path) not in blocks] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target) and not target.startswith("#"):
            assert (page.parent / target.partition("#")[0]).exists(), target


def test_every_page_is_on_the_map() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


@pytest.mark.parametrize(
    "page", reference.PAGES, ids=lambda path: path.relative_to(DOCS).as_posix()
)
def test_what_pages_copy_from_the_code_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert reference.refreshed(text) == text, "run: make reference"


def test_the_reference_has_every_command_with_its_options() -> None:
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S))
    known = reference.commands()
    assert set(sections) == set(known)
    for name, section in sections.items():
        offered = {
            option
            for p in known[name].params
            for option in (*p.opts, *p.secondary_opts)
            if option.startswith("--")
        }
        assert set(re.findall(r"--[a-z][a-z0-9-]*", section)) == offered - {"--help"}


def test_the_picture_needs_nothing_from_elsewhere() -> None:
    picture = (DOCS / "images" / "tour.svg").read_text(encoding="utf-8")
    outside = set(re.findall(r"https?://[^\"')\s]+", picture)) - {"http://www.w3.org/2000/svg"}
    assert not outside and "@font-face" not in picture and "@import" not in picture
