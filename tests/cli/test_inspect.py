import json
from pathlib import Path

import pytest

from tertium.analysis.inspection import head_parameters
from tertium.data.labels import OrderedLabels
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import ConditionalScorer, Encoder
from tertium.models.conditional import model_shape
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


def test_several_models_are_a_table(run: Run, tiny_bert: Path, tiny_roberta: Path) -> None:
    command = ["inspect", tiny_bert, tiny_roberta, "--score", "70", "--score", "60"]
    ran = run(*command, "--json")
    assert ran.code == 0
    found = json.loads(ran.out)["models"]
    assert [each["score"] for each in found] == [70, 60]
    expected = [pytest.approx(1e9 * each["score"] / each["macs"]) for each in found]
    assert [each["efficiency"] for each in found] == expected
    ran = run(*command)
    assert ran.code == 0 and "per GMAC" in ran.out and "70.00" in ran.out
    ran = run("inspect", tiny_bert, tiny_roberta, "--score", "70")
    assert ran.code == 2 and "once for each of the 2 models" in ran.err


def test_the_head_is_counted_by_its_parts(run: Run) -> None:
    ran = run("inspect", "sts", "--json")
    head = json.loads(ran.out)["head"]
    assert ran.code == 0 and head["parameters"] == sum(head["parts"].values())


def test_seaver_adds_heads_times_width_squared(tiny_bert: Path) -> None:
    encoder = Encoder.load(tiny_bert)
    head = CONDITIONAL_HEADS["seaver"](model_shape(encoder), regressor="mean")
    scorer = ConditionalScorer(encoder, head, OrderedLabels(1, 5, 1))
    counted = head_parameters(scorer)
    assert counted["augmentation"] == 4 * 32 * 32 + 32  # heads, width, and a bias
    assert set(counted) == {"augmentation", "regressor"}
