"""What pages show as typed in a terminal is typed here, and prints what they show."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tertium.data import samples
from tests.test_docs import DOCS, FENCE, ROOT, numbers, words

EXAMPLES = ROOT / "examples"
REVIEWS = [
    *("The parcel arrived two days late.", "The parcel came two days late."),
    *("The parcel arrived  two days late.", "My parcel was delivered two days too late."),
    *("The colour is nicer than in the picture.", "The colour looks nicer than on the photo."),
    "I would buy it again.",
]
MISTAKES = "sentence1\tsentence2\tscore\nA cat sleeps.\tA cat is asleep.\t4.8\n"
MISTAKES += "A dog barks.\tA dog is loud.\thigh\n"

REMARKS = re.compile(r"^(?:note: |unpacking |tertium \w+: ).*\n", flags=re.M)  # and signs of life
PLAIN = {"tickets.md"}  # pages whose commands without output are run as well
STARTS = re.compile(r"tertium (?!serve)")

# Pages, and the files that stand beside the reader: names of examples, or what is in them.
PAGES: dict[str, dict[str, Path | str]] = {
    "../README.md": {"tickets.csv": EXAMPLES / "tickets.csv"},
    "how-to/clean.md": {"reviews.txt": "\n".join(REVIEWS)},
    "how-to/compare.md": {"pairs.tsv": Path(samples.PAIRS)},
    "how-to/condition.md": {},
    "how-to/tickets.md": {file.name: file for file in EXAMPLES.glob("ticket*.csv")},
    "how-to/encode.md": {"sentences.txt": Path(samples.SENTENCES)},
    "tutorials/first-steps.md": {"my_pairs.tsv": MISTAKES},
}


def typed(page: Path) -> list[tuple[str, str | None]]:
    """Each command of a page, and what the page shows under it; None for one without output."""
    found: list[tuple[str, str | None]] = []
    for kind, body in FENCE.findall(page.read_text("utf-8")):
        if kind == "console":
            found += shown(body)
        elif kind == "sh" and page.name in PLAIN:
            found += [(line, None) for line in body.splitlines() if STARTS.match(line)]
    return found


def shown(block: str) -> list[tuple[str, str]]:
    """The commands of a block with what stands under each."""
    entries = re.split(r"^\$ ", block, flags=re.M)[1:]
    parts = [re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", entry, flags=re.S) for entry in entries]
    return [(part[1], part[2]) for part in parts if part]


@pytest.mark.integration
@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_shows(name: str, tmp_path: Path) -> None:
    for file, content in PAGES[name].items():
        if isinstance(content, Path):
            shutil.copy(content, tmp_path / file)
        else:
            (tmp_path / file).write_text(content, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "140", "HF_HUB_OFFLINE": "1"}
    entries = typed(DOCS / name)
    assert entries
    for command, expected in entries:
        ran = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {command}"],
            **{"cwd": tmp_path, "env": environment, "text": True, "check": False},
            stdout=subprocess.PIPE,
        )
        printed = REMARKS.sub("", ran.stdout)
        if expected is None:
            assert ran.returncode == 0, printed
            continue
        assert words(printed) == words(expected), command
        assert numbers(printed) == pytest.approx(numbers(expected), abs=0.011), command
