import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer, LlamaConfig

from tertium import models
from tertium.errors import TertiumWarning
from tertium.functional import pool
from tertium.models import Encoder
from tertium.models.pooling import infer_pooling
from tertium.types import Pooling
from tests.fakes import tiny_model

TEXTS = ["the cat sleeps .", "a dog barks , the cat sleeps", "", "x"]


@pytest.fixture(scope="module")
def poolerless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without pooler weights, as roberta-base is."""
    folder = tiny_model(tmp_path_factory.mktemp("poolerless") / "model")
    AutoModel.from_pretrained(folder, add_pooling_layer=False).save_pretrained(folder)
    return folder


@cache
def hidden_states(folder: Path) -> tuple[tuple[Tensor, ...], Tensor]:
    """Of plain transformers, with its plain attention."""
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch, output_hidden_states=True).hidden_states
    return states, batch["attention_mask"]


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", Pooling)
def test_pools_as_defined_and_survives_saving(
    pooling: Pooling, architecture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    encoder: Encoder = request.getfixturevalue(architecture)
    assert encoder.source is not None
    expected = pool(*hidden_states(encoder.source), pooling)
    encoder = encoder.with_pooling(pooling)
    vectors = encoder.encode(TEXTS)
    assert encoder.pooling is pooling

    if pooling in (Pooling.CLS_MLP, Pooling.POOLER):
        expected = encoder.model[2].linear(expected).tanh().detach()
    np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)

    encoder.save(tmp_path / "saved")
    stock = SentenceTransformer(str(tmp_path / "saved"))
    np.testing.assert_allclose(stock.encode(TEXTS), vectors, atol=1e-5)
    ours = models.load(tmp_path / "saved")
    assert ours.pooling is pooling
    np.testing.assert_allclose(ours.encode(TEXTS), vectors, atol=1e-6)


def test_poolings_differ(bert: Encoder) -> None:
    vectors = [bert.with_pooling(pooling).encode(TEXTS) for pooling in Pooling]
    for at, one in enumerate(vectors):
        for other in vectors[at + 1 :]:
            assert np.abs(one - other).max() > 1e-3


def test_poolings_over_one_backbone_do_not_disturb_each_other(bert: Encoder) -> None:
    mixed = bert.with_pooling(Pooling.MEAN_FIRST_LAST)
    before = mixed.encode(TEXTS), bert.encode(TEXTS)
    after = mixed.encode(TEXTS), bert.encode(TEXTS)
    assert mixed.backbone is bert.backbone
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_pooler_is_the_checkpoints_own(tiny_bert: Path) -> None:
    model = AutoModel.from_pretrained(tiny_bert).eval()
    batch = AutoTokenizer.from_pretrained(tiny_bert)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).pooler_output.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors = models.load(tiny_bert, pooling="pooler").encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_a_missing_pooler_is_fresh_seeded_announced_and_saved(
    poolerless: Path, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="no pretrained pooler"):
        encoder = models.load(poolerless, pooling="pooler")
    torch.manual_seed(999)
    with pytest.warns(UserWarning, match="no pretrained pooler"):
        again = models.load(poolerless, pooling="pooler")
    np.testing.assert_array_equal(encoder.encode(TEXTS), again.encode(TEXTS))
    encoder.save(tmp_path / "saved")
    reloaded = models.load(tmp_path / "saved")  # a warning here would fail the test
    np.testing.assert_allclose(reloaded.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_another_pooling_keeps_a_final_normalisation(bert: Encoder) -> None:
    model = SentenceTransformer(modules=[*bert.model, Normalize()])
    encoder = Encoder(model, name="normalised", pooling=Pooling.MEAN).with_pooling(Pooling.CLS)
    plain = bert.with_pooling(Pooling.CLS).encode(TEXTS, normalize=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), plain, atol=1e-6)


@pytest.mark.parametrize("pooling", [Pooling.CLS, Pooling.MEAN, Pooling.CLS_MLP])
def test_foreign_folders_tell_their_pooling(bert: Encoder, pooling: Pooling) -> None:
    assert infer_pooling(list(bert.with_pooling(pooling).model)) is pooling


def test_a_pooling_that_is_none_of_ours_is_not_guessed(bert: Encoder) -> None:
    modules = list(bert.with_pooling(Pooling.CLS).model)
    modules[1].pooling_mode = "max"
    assert infer_pooling(modules) is None
    assert infer_pooling([modules[0], nn.Identity()]) is None


def test_a_decoder_is_pooled_at_its_last_token(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "decoder", "roberta")  # for its tokenizer
    size = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 64, "pad_token_id": 1}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
    torch.manual_seed(0)
    AutoModel.from_config(LlamaConfig(**size, **heads)).save_pretrained(folder)
    encoder = models.load(folder, pooling="last").encoder
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, pool(*hidden_states(folder), Pooling.LAST), atol=1e-5)


def test_code_that_comes_with_a_model_is_run_aloud(bert: Encoder) -> None:
    with pytest.warns(TertiumWarning, match="runs on this machine with your permissions"):
        models.load(str(bert.source), trust_remote_code=True)
