from pathlib import Path

import numpy as np
import pytest

from tertium import models
from tertium.errors import TertiumError
from tertium.models.checkpoints import PUBLISHED, published_pooling
from tertium.types import Pooling
from tests.contrastive_folders import hub_folder, trained_folder, write_weights

TEXTS = ["the cat sleeps .", "a dog"]
UNSUPERVISED = "princeton-nlp/unsup-simcse-bert-base-uncased"
SUPERVISED = "princeton-nlp/sup-simcse-roberta-base"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for the hub: every id is the folder ``snapshot``, to be filled by the test."""
    folder = tmp_path / "snapshot"

    def snapshot_download(repository: str, **options: object) -> str:
        assert "*.bin" not in options["allow_patterns"]  # type: ignore[operator]
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    return folder


def test_supervised_models_alone_keep_their_mlp() -> None:
    assert len(PUBLISHED) == 36
    for name, pooling in PUBLISHED.items():
        supervised = "/sup-" in name or "/esimcse" in name  # whose README evaluates with it
        assert pooling is (Pooling.POOLER if supervised else Pooling.CLS)


@pytest.mark.parametrize("name", [UNSUPERVISED, SUPERVISED, "sap-ai-research/miCSE"])
def test_a_hub_id_has_the_pooling_it_was_trained_for(hub: Path, tiny_bert: Path, name: str) -> None:
    hub_folder(tiny_bert, hub)
    encoder = models.load(name)
    assert encoder.pooling is PUBLISHED[name]
    assert encoder.name == name
    alone = models.load(hub, pooling=PUBLISHED[name])
    np.testing.assert_array_equal(encoder.encode(TEXTS), alone.encode(TEXTS))


def test_an_explicit_pooling_wins(hub: Path, tiny_bert: Path) -> None:
    hub_folder(tiny_bert, hub)
    for pooling in (Pooling.MEAN, Pooling.CLS):
        assert models.load(SUPERVISED, pooling=pooling).pooling is pooling


@pytest.mark.parametrize("name", [UNSUPERVISED, SUPERVISED])
def test_the_mlp_of_a_published_model_is_its_pooler(hub: Path, tiny_bert: Path, name: str) -> None:
    hub_folder(tiny_bert, hub)
    headed, pooler = (models.load(name, pooling=pooling) for pooling in ("cls_mlp", "pooler"))
    assert headed.pooling is Pooling.CLS_MLP
    np.testing.assert_array_equal(headed.encode(TEXTS), pooler.encode(TEXTS))


def test_other_hub_ids_keep_the_mean(hub: Path, tiny_bert: Path) -> None:
    hub_folder(tiny_bert, hub)
    assert models.load("somebody/something").pooling is Pooling.MEAN


def test_a_hub_model_without_safetensors_names_the_remedy(hub: Path, tiny_bert: Path) -> None:
    hub_folder(tiny_bert, hub)
    (hub / "model.safetensors").unlink()
    with pytest.raises(TertiumError, match=r"no safetensors.*refs/pr/.*tertium convert") as caught:
        models.load(UNSUPERVISED)
    assert UNSUPERVISED in str(caught.value)


def test_a_pickled_copy_of_a_hub_model(tiny_bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = hub_folder(tiny_bert, tmp_path / "unsup-simcse-bert-base-uncased")
    expected = models.load(folder).encode(TEXTS)
    write_weights(folder, load_file(folder / "model.safetensors"), pickled=True)
    encoder = models.load(folder)
    assert encoder.pooling is Pooling.CLS
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("unsup-simcse-bert-base-uncased", Pooling.CLS),
        ("sup-simcse-bert-base-uncased", Pooling.CLS_MLP),
    ],
)
def test_a_training_folder_of_a_published_name_is_not_asked_about(
    tiny_bert: Path, tmp_path: Path, name: str, pooling: Pooling
) -> None:
    folder = trained_folder(tiny_bert, tmp_path / name)
    assert models.load(folder).pooling is pooling  # a warning would fail the test


@pytest.mark.parametrize(
    ("folder", "pooling"),
    [
        ("copies/sup-simcse-bert-large-uncased", Pooling.POOLER),
        ("hub/models--princeton-nlp--sup-simcse-roberta-base/snapshots/0a1b", Pooling.POOLER),
        ("hub/models--somebody--sup-simcse-roberta-base/snapshots/0a1b", None),
        ("sup-simcse-roberta-base/snapshots/0a1b", None),
        ("my-sup-simcse-bert-base-uncased", None),
        (".", None),
        ("/", None),
    ],
)
def test_folders_are_known_by_their_names(folder: str, pooling: Pooling | None) -> None:
    assert published_pooling("anything", Path(folder)) is pooling
