"""The command as a process of its own."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tertium.cli.output import emit

pytestmark = pytest.mark.integration

# Python's own audit events: they see sockets made by any library, in Python or in C.
BLOCKED = """
import runpy, sys
def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"network use: {event}")
sys.addaudithook(refuse)
sys.argv = ["tertium", *sys.argv[1:]]
runpy.run_module("tertium", run_name="__main__")
"""


def start(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=False,
    )
    # A slow machine has more to say about its progress.
    ran.stderr = re.sub(r"^tertium .*: running for .*\n", "", ran.stderr, flags=re.MULTILINE)
    return ran


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['tertium', '--help']; from tertium.cli import app\n"
    code += "app(standalone_mode=False); heavy = {'torch', 'transformers', 'sklearn', 'scipy'}\n"
    code += "print('heavy:', sorted(heavy & set(sys.modules)))"
    ran = start("-c", code)
    assert ran.returncode == 0, ran.stderr
    assert "compare" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "heavy: []"


def test_an_error_is_one_line() -> None:
    ran = start("-m", "tertium", "compare", "a", "b", "-m", "./nothing")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1


def test_the_block_blocks(tmp_path: Path) -> None:
    (tmp_path / "tertium.py").write_text("import socket; socket.socket()")
    ran = start("-c", BLOCKED, PYTHONPATH=str(tmp_path))
    assert "network use: socket.__new__" in ran.stderr
    (tmp_path / "tertium.py").write_text("import socket; socket.getaddrinfo('localhost', 80)")
    assert (
        "network use: socket.getaddrinfo" in start("-c", BLOCKED, PYTHONPATH=str(tmp_path)).stderr
    )


def test_compare_needs_no_network() -> None:
    ran = start("-c", BLOCKED, "compare", "A cat sleeps.", "A kitten is napping.", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    (pair,) = json.loads(ran.stdout)["pairs"]
    assert pair["scale"] == [0.0, 5.0]
    assert 3 < pair["score"] < 4


@pytest.mark.long
def test_evaluate_needs_no_network(tiny_bert: Path, small_data: Path) -> None:
    ran = start(
        *("-c", BLOCKED, "evaluate", tiny_bert, "--data", small_data),
        *("--suite", "sts,geometry", "--bootstrap", "10", "--json"),
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["results"].keys() == {"sts", "geometry"}


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are bytes on Linux")
@pytest.mark.long
def test_an_argument_that_is_no_text(tiny_bert: Path) -> None:
    arguments = ("compare", "the \udcff cat", "é", "-m", tiny_bert)
    ran = start("-m", "tertium", *arguments, PYTHONIOENCODING="utf-8:strict")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_survives_any_terminal(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    emit({"a": "the \udcff cat", "b": "é"})
    stream.flush()
    written = stream.buffer.getvalue().decode(encoding)
    assert json.loads(written) == {"a": "the \udcff cat", "b": "é"}
