import json
from collections.abc import Callable
from pathlib import Path

from tertium.jobs.request import hash_model_files
from tests.jobs.stubs import stub_model


def test_what_makes_vectors_makes_the_fingerprint(tmp_path: Path) -> None:
    one, two = stub_model(tmp_path / "one"), stub_model(tmp_path / "two")
    assert hash_model_files(str(one)) == hash_model_files(str(two))
    (two / "README.md").write_text("a card")
    assert hash_model_files(str(one)) == hash_model_files(str(two))
    (two / "model.safetensors").write_bytes(b"weights")
    assert hash_model_files(str(one)) != hash_model_files(str(two))


def test_a_file_that_moves_counts(tmp_path: Path) -> None:
    model = stub_model(tmp_path / "model")
    (model / "a.txt").write_text("x")
    before = hash_model_files(str(model))
    (model / "a.txt").rename(model / "b.txt")
    assert hash_model_files(str(model)) != before


def test_an_adapter_counts_its_base(tmp_path: Path, reserve: Callable[[str, Path], str]) -> None:
    base, adapter = stub_model(tmp_path / "base"), stub_model(tmp_path / "adapter")
    manifest = {"kind": "pair", "scale": [0, 5], "details": {"base": reserve("tiny", base)}}
    (adapter / "tertium.json").write_text(json.dumps(manifest))
    before = hash_model_files(str(adapter))
    (base / "config.json").write_text('{"other": 1}')
    assert hash_model_files(str(adapter)) != before


def test_the_shipped_models_differ_and_stay() -> None:
    assert hash_model_files("default") == hash_model_files("default")
    assert hash_model_files("default") != hash_model_files("sts")
