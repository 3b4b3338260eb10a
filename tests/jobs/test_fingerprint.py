import json
from collections.abc import Callable
from pathlib import Path

from tertium.jobs.fingerprint import model_fingerprint
from tests.jobs.stubs import stub_model


def test_what_makes_vectors_makes_the_fingerprint(tmp_path: Path) -> None:
    one, two = stub_model(tmp_path / "one"), stub_model(tmp_path / "two")
    assert model_fingerprint(str(one)) == model_fingerprint(str(two))
    (two / "README.md").write_text("a card")
    assert model_fingerprint(str(one)) == model_fingerprint(str(two))
    (two / "model.safetensors").write_bytes(b"weights")
    assert model_fingerprint(str(one)) != model_fingerprint(str(two))


def test_a_file_that_moves_counts(tmp_path: Path) -> None:
    model = stub_model(tmp_path / "model")
    (model / "a.txt").write_text("x")
    before = model_fingerprint(str(model))
    (model / "a.txt").rename(model / "b.txt")
    assert model_fingerprint(str(model)) != before


def test_an_adapter_counts_its_base(tmp_path: Path, reserve: Callable[[str, Path], str]) -> None:
    base, adapter = stub_model(tmp_path / "base"), stub_model(tmp_path / "adapter")
    manifest = {"kind": "pair", "scale": [0, 5], "details": {"base": reserve("tiny", base)}}
    (adapter / "tertium.json").write_text(json.dumps(manifest))
    before = model_fingerprint(str(adapter))
    (base / "config.json").write_text('{"other": 1}')
    assert model_fingerprint(str(adapter)) != before


def test_the_shipped_models_differ_and_stay() -> None:
    assert model_fingerprint("default") == model_fingerprint("default")
    assert model_fingerprint("default") != model_fingerprint("sts")
