import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tertium.cli import main
from tertium.data import sample_pairs
from tests.cli.shapes import check_shape


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process: what the console script calls, with its exit code.

    What it prints with ``--json`` is compared with docs/json.md.
    """

    def _run(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["tertium", *map(str, arguments)])
        capsys.readouterr()
        code: Any = 0
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
        seen = capsys.readouterr()
        if "--json" in arguments and code == 0:
            first, second = (*map(str, arguments), "")[:2]
            inner = first in ("index", "data") or (first, second) == ("models", "fetch")
            check_shape(f"{first} {second}" if inner else first, json.loads(seen.out))
        return Ran(code, seen.out, seen.err)

    return _run


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The seven STS sets in small: our sample pairs under each of their names."""
    folder = tmp_path_factory.mktemp("data")
    rows = sample_pairs()
    for name in ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sick"):
        lines = ["split\tsubset\tscore\tsentence1\tsentence2"]
        for row in rows:
            score = max(row.score, 1.0) if name == "sick" else row.score
            lines.append(f"test\tall\t{score}\t{row.sentence1}\t{row.sentence2}")
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
