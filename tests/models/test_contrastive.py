import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from tertium import models
from tertium.errors import TertiumError, TertiumWarning
from tertium.models import Encoder
from tertium.models.surgery import language_head
from tertium.types import Pooling
from tests.contrastive_folders import mlp, read, trained_folder, write_weights

TEXTS = ["the cat sleeps .", "a dog barks , the cat", "x"]


@pytest.fixture(params=["bert", "roberta"])
def base(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(f"tiny_{request.param}")
    return folder


def by_hand(base: Path) -> tuple[np.ndarray, np.ndarray]:
    """Last states of the first tokens in plain transformers, and the same through the MLP."""
    model = AutoModel.from_pretrained(base).eval()
    batch = AutoTokenizer.from_pretrained(base)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        cls: Tensor = model(**batch).last_hidden_state[:, 0]
    layer = mlp(cls.shape[1])
    return cls.numpy(), (cls @ layer["weight"].T + layer["bias"]).tanh().numpy()


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
def test_a_training_folder_is_its_backbone_and_on_request_its_mlp(
    base: Path, tmp_path: Path, pickled: bool
) -> None:
    folder = trained_folder(base, tmp_path / "result", pickled=pickled)
    cls, through_mlp = by_hand(base)
    with pytest.warns(TertiumWarning, match=r'pooling="cls_mlp" \(--pooling cls_mlp\)'):
        plain = models.load(folder)
    assert plain.pooling is Pooling.CLS
    np.testing.assert_allclose(plain.encode(TEXTS), cls, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = models.load(folder, pooling="cls")
        headed = models.load(folder, pooling="cls_mlp")
    np.testing.assert_array_equal(asked.encode(TEXTS), plain.encode(TEXTS))
    assert headed.pooling is Pooling.CLS_MLP
    np.testing.assert_allclose(headed.encode(TEXTS), through_mlp, atol=1e-5)
    assert isinstance(plain, Encoder)
    later = plain.with_pooling(Pooling.CLS_MLP)
    np.testing.assert_allclose(later.encode(TEXTS), through_mlp, atol=1e-5)


def test_a_training_folder_has_no_pooler(base: Path, tmp_path: Path) -> None:
    folder = trained_folder(base, tmp_path / "result", pickled=True)
    with pytest.warns(TertiumWarning, match="no pretrained pooler"):
        models.load(folder, pooling="pooler")


def test_training_can_go_on_from_a_pickled_folder(tiny_bert: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result", pickled=True)
    encoder = models.load(folder, pooling="cls")
    assert isinstance(encoder, Encoder)
    assert language_head(encoder, seed=0).bias.shape == (encoder.backbone.config.vocab_size,)


def test_names_of_old_checkpoints_are_understood(tiny_bert: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in read(folder).items()
    }
    write_weights(folder, old)
    vectors = models.load(folder, pooling="cls").encode(TEXTS)
    np.testing.assert_allclose(vectors, by_hand(tiny_bert)[0], atol=1e-5)


def test_a_plain_folder_may_be_pickled_too(tiny_roberta: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_roberta, tmp_path / "copy")
    write_weights(folder, read(tiny_roberta), pickled=True)
    np.testing.assert_allclose(
        models.load(folder).encode(TEXTS), models.load(tiny_roberta).encode(TEXTS), atol=1e-6
    )


# What is wrong with a folder


class Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("code ran",))


def test_no_code_runs(tiny_bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result", pickled=True)
    torch.save({**read(folder), "extra": Malicious()}, folder / "pytorch_model.bin")
    with pytest.raises(TertiumError, match=r"\.bin is not a plain state dict.*safetens"):
        models.load(folder)
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version https://git-lfs.github.com/spec/v1\n",
        b"PK\x03\x04 broken",
        pickle.dumps([1, 2]),
        pickle.dumps({"epoch": 3}),
    ],
    ids=["empty", "pointer", "zip", "list", "numbers"],
)
def test_a_bin_that_is_no_state_dict(tiny_bert: Path, tmp_path: Path, content: bytes) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result", pickled=True)
    (folder / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(TertiumError, match=r"pytorch_model\.bin is not a plain state dict"):
        models.load(folder)


def test_broken_safetensors(tiny_bert: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result")
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(TertiumError, match=r"model\.safetensors cannot be read.*again"):
        models.load(folder)


def test_a_folder_without_tokenizer(base: Path, tmp_path: Path) -> None:
    folder = trained_folder(base, tmp_path / "result")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(TertiumError, match=r"result has no tokenizer \(tokenizer.json.*Copy"):
        models.load(folder)


def test_a_folder_without_weights(tiny_bert: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result")
    (folder / "model.safetensors").unlink()
    with pytest.raises(TertiumError, match=r"no weights: neither model.safetensors nor pytorch"):
        models.load(folder)


@pytest.mark.parametrize("content", ["[]", "{", ""])
def test_a_config_that_is_none(tiny_bert: Path, tmp_path: Path, content: str) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result")
    (folder / "config.json").write_text(content)
    with pytest.raises(TertiumError, match=r"config\.json is not a JSON object"):
        models.load(folder)


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"*": None, "module.x": torch.ones(2)}, "fits no known layout: it contains module.x"),
        ({"*": None}, "fits no known layout: it contains nothing"),
        ({"bert.encoder.layer.2.output.dense.weight": None}, "lacks 1 of the weights"),
        (
            {"bert.encoder.layer.0.output.dense.weight": torch.ones(3, 3)},
            r"is \(3, 3\), but config.json requires \(32, 64\)",
        ),
        ({"mlp.dense.weight": torch.ones(8, 32)}, r"mlp.dense.weight is \(8, 32\)"),
        ({"mlp.dense.bias": None}, "mlp.dense.bias is missing"),
    ],
    ids=["foreign", "empty", "lacking", "shape", "mlp", "bias"],
)
def test_weights_that_do_not_fit(
    tiny_bert: Path,
    tmp_path: Path,
    change: dict[str, Tensor | None],
    message: str,
    pickled: bool,
) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result")
    weights = {} if "*" in change else read(folder)
    for name, tensor in change.items():
        weights.pop(name, None)
        if tensor is not None:
            weights[name] = tensor
    write_weights(folder, weights, pickled=pickled)
    with pytest.raises(TertiumError, match=message) as caught:
        models.load(folder)
    assert str(folder) in str(caught.value)


def test_other_architectures_are_not_read_from_a_pickle(tiny_bert: Path, tmp_path: Path) -> None:
    folder = trained_folder(tiny_bert, tmp_path / "result", pickled=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "electra"}))
    with pytest.raises(TertiumError, match=r"only BERT and RoBERTa.*Save the model as"):
        models.load(folder)
