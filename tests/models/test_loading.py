import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import CrossEncoder
from transformers import AutoTokenizer, BertForSequenceClassification

import tertium
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.models import NAMES, Encoder, resolve
from tertium.records.manifest import FILE_NAME, FORMAT
from tertium.types import Kind, Pooling

TEXTS = ["the cat sleeps .", "a dog"]


@pytest.fixture(scope="module")
def saved(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    tertium.load(tiny_bert, pooling="cls").save(folder)
    return folder


def test_a_reserved_name_is_its_folder_unless_a_separator_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_bert: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bert, tmp_path / "default")
    assert resolve("default") == NAMES["default"].folder()
    assert resolve("./default") == Path("default")


def test_every_reserved_name_is_described() -> None:
    for model in NAMES.values():
        assert model.summary
        assert model.kind in Kind


def test_a_plain_transformers_folder_is_pooled_by_the_mean(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    assert encoder.pooling is Pooling.MEAN
    assert encoder.name == str(tiny_bert)
    assert tertium.load(tiny_bert, pooling=Pooling.CLS).pooling is Pooling.CLS


def test_a_folder_of_ours_and_one_of_sentence_transformers(saved: Path, tmp_path: Path) -> None:
    foreign = shutil.copytree(saved, tmp_path / "foreign")
    (foreign / FILE_NAME).unlink()
    ours, theirs = tertium.load(saved), tertium.load(foreign)
    assert ours.pooling is theirs.pooling is Pooling.CLS
    np.testing.assert_array_equal(ours.encode(TEXTS), theirs.encode(TEXTS))


def test_the_saved_pooling_can_be_replaced(saved: Path, tiny_bert: Path) -> None:
    replaced = tertium.load(saved, pooling="mean")
    expected = tertium.load(tiny_bert, pooling="mean").encode(TEXTS)
    np.testing.assert_allclose(replaced.encode(TEXTS), expected, atol=1e-6)


def test_a_folder_may_be_a_path_relative_or_at_home(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    monkeypatch.setenv("HOME", str(saved.parent))
    assert resolve("model") == Path("model")
    assert resolve("~/model") == saved
    assert resolve(saved) == saved


@pytest.mark.parametrize("name", ["nobody/nothing", "nothing"])
def test_a_hub_id_out_of_reach_is_one_sentence(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        tertium.load(name)
    message = str(caught.value)
    assert f"'{name}'" in message and "hub" in message
    assert "\n" not in message and message.count(". ") == 0


@pytest.mark.parametrize("name", ["./nothing", "/no/such/folder", "a/b/c", "with space", ""])
def test_what_can_be_no_hub_id_is_a_missing_folder(name: str) -> None:
    with pytest.raises(ModelNotFoundError):
        resolve(name)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_text("x")
    with pytest.raises(ModelNotFoundError, match="is a file"):
        tertium.load(file)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=f"does not contain a model.*{FILE_NAME}"):
        tertium.load(tmp_path)


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json"])
def test_a_folder_with_half_a_model(saved: Path, tmp_path: Path, missing: str) -> None:
    folder = shutil.copytree(saved, tmp_path / "half")
    (folder / missing).unlink()
    with pytest.raises(TertiumError, match="half"):
        tertium.load(folder)


@pytest.fixture(scope="module")
def classifier(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformers folder with a score for a pair, as cross-encoders were long published."""
    folder = tmp_path_factory.mktemp("classifier") / "classifier"
    model = BertForSequenceClassification.from_pretrained(tiny_bert, num_labels=1)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(folder)
    return folder


def test_a_cross_encoder_is_not_taken_for_an_encoder(classifier: Path, tmp_path: Path) -> None:
    CrossEncoder(str(classifier), device="cpu").save(str(tmp_path / "cross"))
    for folder in (classifier, tmp_path / "cross"):
        assert tertium.load(folder).kind is Kind.CROSS
        with pytest.raises(TertiumError, match="pools nothing: leave pooling out"):
            tertium.load(folder, pooling="cls")


def test_other_models_of_sentence_transformers_are_named(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "sparse")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": "SparseEncoder"}))
    with pytest.raises(TertiumError, match="contains a SparseEncoder of sentence-transformers"):
        tertium.load(folder)


def test_an_unknown_pooling_is_met_with_the_nearest(tiny_bert: Path) -> None:
    with pytest.raises(TertiumError, match=r"No pooling 'men'\. Did you mean 'mean'\?"):
        tertium.load(tiny_bert, pooling="men")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f'{{"format": {FORMAT + 1}, "kind": "encoder", "scale": [-1, 1]}}', "Upgrade tertium"),
        ('{"format": 1, "kind": "quantum", "scale": [-1, 1]}', "kind"),
        (
            '{"format": 1, "kind": "ensemble", "scale": [-1, 1]}',
            "members: Input should be a",
        ),
        ('{"format": 1, "kind": "static", "scale": [-1, 1]}', "does not begin with static"),
    ],
)
def test_a_manifest_from_elsewhere(saved: Path, tmp_path: Path, content: str, message: str) -> None:
    folder = shutil.copytree(saved, tmp_path / "model")
    (folder / FILE_NAME).write_text(content)
    with pytest.raises(TertiumError, match=message):
        tertium.load(folder)
