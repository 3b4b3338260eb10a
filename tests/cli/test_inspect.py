import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.integration


def test_inspect_shows_parts_cost_and_energy(run: Run, tiny_bert: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("the cat sleeps .\n\na dog barks\n")
    command = ["inspect", tiny_bert, "--texts", file, "--tokens", "8", "--score", "70"]
    ran = run(*command, "--json")
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["backbones"], found["tokens"], found["cls_energy"]["texts"]) == (1, 8, 2)
    assert found["macs"] == 3 * (8 * 8192 + 64 * 64)
    assert found["efficiency"] == pytest.approx(70e9 / found["macs"])
    assert len(found["cls_energy"]["layers"]) == 3
    ran = run(*command)
    assert ran.code == 0
    assert "GMACs for a text of 8 tokens" in ran.out
    assert ran.out.count("layer") == 4 and "█" in ran.out


def test_inspect_without_texts_has_no_energy(run: Run, tiny_bert: Path) -> None:
    ran = run("inspect", tiny_bert)
    assert ran.code == 0 and "energy" not in ran.out


def test_inspect_refuses_what_it_cannot_read(run: Run, tmp_path: Path, tiny_bert: Path) -> None:
    ran = run("inspect", tmp_path / "nothing")
    assert ran.code == 2 and "There is no folder" in ran.err
    ran = run("inspect", tiny_bert, "--texts", tmp_path / "nothing.txt")
    assert ran.code == 2 and "nothing.txt" in ran.err
