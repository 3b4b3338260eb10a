from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import tertium
from tertium.engines.static import distil_static
from tertium.errors import TertiumError
from tertium.models import Encoder, Ensemble, StaticEncoder
from tertium.models.base import Embedder
from tertium.models.light_static import LightStatic
from tertium.models.names import is_static
from tertium.models.tokens import TokenizationStats, UnknownTextWarning
from tertium.records.manifest import TrainingData, read_manifest
from tertium.types import Kind

TEXTS = ["the cat sleeps .", "a dog barks", "", "a b c d e f g", "a dog barks", "sleeps cat the ."]


@pytest.fixture(scope="module")
def static(tiny_bert: Path) -> StaticEncoder:
    encoder = tertium.load(tiny_bert, engine="torch")
    assert isinstance(encoder, Encoder)
    encoder.training_data = (TrainingData(name="wiki"),)
    return distil_static(encoder, dimensions=16)


def test_it_is_an_embedder_and_a_scorer(static: StaticEncoder) -> None:
    assert isinstance(static, Embedder) and not static.takes_conditions
    assert (static.dimension, static.pooling, static.kind) == (16, None, Kind.STATIC)
    assert static.scale == (-1.0, 1.0) and not static.normalizes


def test_a_text_is_the_mean_of_its_tokens(static: StaticEncoder) -> None:
    vectors = static.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (6, 16)
    words = static.encode(["the", "cat", "sleeps", "."])
    np.testing.assert_allclose(vectors[0], words.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[5], atol=1e-6)  # order makes no difference
    np.testing.assert_array_equal(vectors[1], vectors[4])
    np.testing.assert_array_equal(vectors[2], 0)
    np.testing.assert_allclose(static.encode(TEXTS[0]), vectors[0], atol=1e-6)
    assert static.encode([]).shape == (0, 16)
    unit = static.encode(TEXTS[:2], normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)


def test_scores_are_cosines(static: StaticEncoder) -> None:
    u, v = static.encode(TEXTS[:2], normalize=True)
    found = static.score([(TEXTS[0], TEXTS[1]), ("", "a"), ("a", "a")])
    np.testing.assert_allclose(found, [u @ v, 0, 1], atol=1e-6)
    np.testing.assert_array_equal(static.cosine([("a", "b")]), static.score([("a", "b")]))


def test_streams_and_long_texts(static: StaticEncoder) -> None:
    long = "cat " * 5000
    np.testing.assert_allclose(static.encode(long), static.encode("cat"), atol=1e-5)
    streamed = list(static.encode_stream(iter(TEXTS), window=2))
    np.testing.assert_allclose(streamed, static.encode(TEXTS), atol=1e-6)


def test_texts_that_nobody_knows_are_counted(static: StaticEncoder) -> None:
    counted = TokenizationStats()
    static.encode(["🙂", "cat 🙂", ""], truncation=counted)
    assert (counted.texts, counted.unknown, counted.cut) == (3, 1, 0)
    with pytest.warns(UnknownTextWarning, match="1 of 2 distinct texts"):
        static.encode(["🙂", "cat"])


def test_characters_that_are_no_text(static: StaticEncoder) -> None:
    assert np.isfinite(static.encode(["\ud800", "cat \udfff"])).all()


def test_saved_and_loaded_again(static: StaticEncoder, tmp_path: Path) -> None:
    static.save(tmp_path / "static")
    assert is_static(tmp_path / "static")
    manifest = read_manifest(tmp_path / "static")
    assert manifest is not None and manifest.kind is Kind.STATIC
    loaded = tertium.load(tmp_path / "static")
    assert loaded.kind is Kind.STATIC
    np.testing.assert_allclose(loaded.encode(TEXTS), static.encode(TEXTS), atol=1e-6)
    by_torch = tertium.load(tmp_path / "static", engine="torch")
    assert isinstance(by_torch, StaticEncoder) and isinstance(loaded, LightStatic)
    assert loaded.fingerprint == by_torch.fingerprint == static.fingerprint
    assert [data.name for data in loaded.training_data] == ["wiki"]
    stock = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    np.testing.assert_allclose(stock.encode(TEXTS[:2]), static.encode(TEXTS[:2]), atol=1e-6)
    assert not list((tmp_path / "static").rglob("*.bin"))


def test_a_static_model_of_others(static: StaticEncoder, tmp_path: Path) -> None:
    module = static.model[0]
    assert isinstance(module, StaticEmbedding)
    SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path / "theirs"))
    loaded = tertium.load(tmp_path / "theirs")
    assert loaded.kind is Kind.STATIC
    np.testing.assert_allclose(loaded.encode(TEXTS), static.encode(TEXTS), atol=1e-6)


def test_it_is_a_member_like_any_other(static: StaticEncoder, tmp_path: Path) -> None:
    both = Ensemble([static, static], weights=[1.0, 0.5])
    np.testing.assert_allclose(both.encode(TEXTS), 1.5 * static.encode(TEXTS), atol=1e-6)
    both.save(tmp_path / "both")
    loaded = tertium.load(tmp_path / "both")
    assert isinstance(loaded, Ensemble)
    np.testing.assert_allclose(loaded.encode(TEXTS), both.encode(TEXTS), atol=1e-6)


def test_what_needs_a_transformer_says_so(static: StaticEncoder, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="has no transformer to train, export or look into"):
        _ = static.backbone
    with pytest.raises(TertiumError, match="has no transformer"):
        static.features(["a"])
    with pytest.raises(TertiumError, match="has no transformer"):
        static.with_pooling("cls")  # type: ignore[arg-type]
    static.save(tmp_path / "static")
    with pytest.raises(TertiumError, match="Leave pooling and max_length out"):
        tertium.load(tmp_path / "static", pooling="cls")
    with pytest.raises(TertiumError, match="no graph, and needs no engine"):
        tertium.load(tmp_path / "static", engine="onnx")
    assert tertium.load(tmp_path / "static", engine="static").kind is Kind.STATIC


def test_folders_that_hold_no_static_model(tiny_bert: Path, tmp_path: Path) -> None:
    assert not is_static(tiny_bert) and not is_static(tmp_path)
    with pytest.raises(TertiumError, match="does not begin with static embeddings"):
        StaticEncoder.load(tiny_bert)
    with pytest.raises(TertiumError, match="does not begin with static embeddings"):
        StaticEncoder(tertium.load(tiny_bert).model, name="x")  # type: ignore[union-attr]
