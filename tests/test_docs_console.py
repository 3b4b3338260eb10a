"""What pages show as typed in a terminal is typed here, and prints what they show."""

import csv
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import tertium
from tertium.data import samples
from tests import test_docs
from tests.conftest import DATA
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
BAD_ROWS = MISTAKES.replace("high", "abc")
BAD_ROWS += "".join(f"A {who} sings.\tA {who} is singing.\t5\n" for who in ("man", "girl", "boy"))
BAD_ROWS += "3\tA dog barks.\n"
RATED = """sentence1\tsentence2\tscore\trater1\trater2
A cat sleeps.\tA cat is asleep.\t5\t5\t5
A dog barks.\tA dog is loud.\t0\t0\t1
A dog barks.\tA dog is loud.\t2\t2\t3
"""
TICKETS = """id,text,year,lang
t1,The ferry to the island was cancelled because of strong winds.,2023,en
t2,Strong gusts kept the boat to the island in harbour all day.,2024,en
t3,Die Fähre fuhr heute nicht.,2024,de
t4,The invoice was sent to the wrong address.,2021,en
t5,The refund for order 4711 has not been paid yet.,2024,en
t6,The app closes when I open a picture.,2022,en
"""
CHANGED = """id,text,year,lang
t1,The ferry to the island was cancelled because of a storm.,2023,en
t2,Strong gusts kept the boat to the island in harbour all day.,2025,en
t7,The invoice shows the wrong amount.,2025,en
"""
DUPLICATES = "text_a,text_b,dup\n" + "".join(
    f"The door of room {room} is stuck.,The {thing} of room {room} fails.,{answer}\n"
    for room in range(200)
    for thing, answer in (("door", "yes"), ("lamp", "no"))
)


def twin(folder: Path) -> None:
    """Two equal towers: what they cost does not depend on what they learned."""
    from tertium.models.surgery import join_towers

    encoder = tertium.load(engine="torch").with_pooling("cls", normalize=False)
    join_towers(encoder, encoder.copy()).save(folder)


def labelled(file: Path) -> None:
    """The first 200 training pairs of MRPC, under other names."""
    with (DATA / "mrpc.tsv").open(encoding="utf-8") as source:
        rows = list(csv.DictReader(source, delimiter="\t", quoting=csv.QUOTE_NONE))
    training = [row for row in rows if row["split"] == "train"][:200]
    answers = {"0": "no", "1": "yes"}
    lines = [f"{r['sentence1']}\t{r['sentence2']}\t{answers[r['label']]}\n" for r in training]
    file.write_text("ticket_a\tticket_b\tsame\n" + "".join(lines), encoding="utf-8")


# Pages, and the files that stand beside the reader: where they are, what is in them or what makes
# them.
SENTENCES = {"sentences.txt": Path(samples.SENTENCES)}
PAGES: dict[str, dict[str, Path | str | Callable[[Path], None]]] = {
    "../README.md": {"tickets.csv": EXAMPLES / "tickets.csv"},
    "concepts/add.md": {},
    "how-to/bulk.md": {**SENTENCES},
    "how-to/clean.md": {"reviews.txt": "\n".join(REVIEWS)},
    "how-to/compare.md": {"pairs.tsv": Path(samples.PAIRS)},
    "how-to/condition.md": {},
    "how-to/data.md": {"pairs.tsv": BAD_ROWS, "rated.tsv": RATED},
    "how-to/decide.md": {"tickets.tsv": labelled},
    "how-to/encode.md": {**SENTENCES},
    "how-to/engines.md": {**SENTENCES},
    "how-to/explain.md": {},
    "how-to/look-at-attention.md": {**SENTENCES},
    "how-to/offline.md": {},
    "how-to/own-data.md": {"tickets.csv": DUPLICATES},
    "how-to/search.md": {
        **SENTENCES,
        "more.txt": "The ship stayed in port.\nThe train to the coast was late.\n",
        "tickets.csv": TICKETS,
        "changed.csv": CHANGED,
    },
    "how-to/serve.md": {},
    "how-to/tickets.md": {file.name: file for file in EXAMPLES.glob("ticket*.csv")},
    "how-to/twins.md": {**SENTENCES, "twin": twin},
    "reference/cli.md": {},
    "tutorials/first-steps.md": {"my_pairs.tsv": MISTAKES},
}
NEEDS_DATA = {"how-to/decide.md"}
PLAIN = {"tickets.md"}  # pages whose commands without output are run as well

STARTS = re.compile(r"tertium (?!serve)")
PROGRESS = r"\w+: (?:[\d,]*\d(?:/[\d,]+|, [\d.]+ (?:s/|\w+/s))|running for )"  # of a slow machine
REMARKS = re.compile(rf"note: |unpacking |loading |tertium \w+: |\d{{4}}-\d\d-\d\d |{PROGRESS}")
MORE = "…\n"  # output ends with it where only its beginning is shown


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


def plain(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if not REMARKS.match(line)]


class Terminal:
    """Where a page's commands are typed; a server goes on running while others are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.running: list[subprocess.Popen[str]] = []

    def run(self, command: str, *, lines: int | None = None) -> tuple[int | None, str]:
        """The exit code and what is printed; of so many lines, and without a code, if given."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "COLUMNS": "140", "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(
            ["sh", "-c", f"exec 2>&1; {command.replace(':8080', f':{self.port}')}"],
            **{"cwd": self.folder, "text": True, "start_new_session": True},
            env={**environment, "TERTIUM_SERVE_PORT": str(self.port)},
            stdout=subprocess.PIPE,
        )
        self.running.append(process)
        assert process.stdout
        printed: list[str] = []
        while lines is None or len(printed) < lines:
            line = process.stdout.readline()
            if not line:
                break
            printed += plain(line.replace(f":{self.port}", ":8080"))
        code = None if lines is not None and len(printed) == lines else process.wait()
        return code, "".join(printed)

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)
            assert process.stdout
            process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.data if n in NEEDS_DATA else ()) for n in PAGES]
)
def test_commands_print_what_the_page_shows(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if name in NEEDS_DATA:
        request.getfixturevalue("data_folder")
    for file, content in PAGES[name].items():
        if isinstance(content, Path):
            shutil.copy(content, tmp_path / file)
        elif isinstance(content, str):
            (tmp_path / file).write_text(content, encoding="utf-8")
        else:
            content(tmp_path / file)
    entries = typed(DOCS / name)
    assert entries
    with closing(Terminal(tmp_path)) as types:
        for command, output in entries:
            if output is None:
                code, printed = types.run(command)
                assert code == 0, printed
                continue
            expected = plain(output.removesuffix(MORE))
            cut = output.endswith(MORE) or command.startswith("tertium serve")
            _, printed = types.run(command, lines=len(expected) if cut else None)
            assert words(printed) == words("".join(expected)), command
            found = numbers(printed)
            assert found == pytest.approx(numbers("".join(expected)), abs=0.011), command


def test_every_page_with_a_terminal_is_run() -> None:
    pages = {page for page in test_docs.PAGES if "\n```console\n" in page.read_text("utf-8")}
    assert {(DOCS / name).resolve() for name in PAGES} == pages


@pytest.mark.parametrize(
    "page", test_docs.PAGES, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_output_stands_beside_the_command_that_prints_it(page: Path) -> None:
    """It would not be run: command and output share a block."""
    text = page.read_text("utf-8")
    assert re.findall(r"^```(?:sh|bash)\n[^`]*^```\n+```(?:text)?\n.*", text, flags=re.M) == []
