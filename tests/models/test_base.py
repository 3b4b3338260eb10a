"""The contract of all models: what each kind can be asked, and what the answers are."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import tertium
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import CosineHead
from tertium.models import ConditionalAverage, Encoder, Ensemble, PairScorer, TripleScorer, loading
from tertium.models.base import Embedder, Model
from tertium.models.surgery import join_towers
from tertium.types import Kind, Pooling
from tests.models.test_conditional import scorer_of

TEXTS = ["the cat sleeps .", "a dog barks", "a b c d e f g", ""]
PAIRS = [("the cat sleeps .", "a dog barks"), ("a b c", "a b c"), ("", "a dog")]


@pytest.fixture(scope="module")
def models(tiny_bert: Path, tiny_roberta: Path) -> dict[str, Model]:
    """One of every kind."""
    bert, roberta = tertium.load(tiny_bert).encoder, tertium.load(tiny_roberta).encoder
    cross, bi = scorer_of(tiny_bert, {"kind": "seaver"}), scorer_of(tiny_roberta, {"kind": "bi"})
    return {
        "encoder": bert,
        "twin": join_towers(bert, bert.copy()),
        "pair": PairScorer(bert, CosineHead(low=0.0, high=5.0), OrderedLabels(0.0, 5.0)),
        "ensemble": Ensemble([bert, roberta], weights=[1.0, 2.0]),
        "conditional": cross,
        "average": ConditionalAverage([cross, bi]),
    }


KINDS = ["encoder", "twin", "pair", "ensemble", "conditional", "average"]
EMBEDDERS = KINDS[:4]


@pytest.fixture
def model(models: dict[str, Model], request: pytest.FixtureRequest) -> Model:
    return models[request.param]


def items_of(model: Model) -> list[tuple[str, ...]]:
    return [(a, b, "the animal") if model.takes_conditions else (a, b) for a, b in PAIRS]


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_what_a_model_says_of_itself(model: Model, request: pytest.FixtureRequest) -> None:
    key = request.node.callspec.params["model"]
    assert model.kind is (Kind.CONDITIONAL if key == "average" else Kind(key))
    assert model.takes_conditions is isinstance(model, TripleScorer)
    assert model.takes_conditions is not isinstance(model, Embedder)
    several = key in ("ensemble", "average")
    assert len(model.members) == len(model.encoders) == len(model.parts) == (2 if several else 1)
    assert all(isinstance(encoder, Encoder) for encoder in model.encoders)
    assert [member.encoder for member in model.members] == list(model.encoders)
    if several:
        with pytest.raises(TertiumError, match="2 models, and this takes a single one"):
            _ = model.encoder
    else:
        assert model.encoder is model.encoders[0]
    shown = repr(model)
    assert shown.startswith(f"{type(model).__name__}({model.name!r}") and "scale=(" in shown
    assert ("members=" in shown) is several


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_scores_lie_within_the_scale(model: Model) -> None:
    low, high = model.scale
    items = items_of(model)
    scores = model.score(items, progress=False)
    assert ((scores >= low) & (scores <= high)).all()
    np.testing.assert_allclose(model.score_items(items).clip(low, high), scores, atol=1e-6)


@pytest.mark.parametrize("model", EMBEDDERS, indirect=True)
def test_vectors_are_scored_as_texts_are(model: Embedder) -> None:
    first, second = (model.encode([pair[side] for pair in PAIRS]) for side in (0, 1))
    np.testing.assert_allclose(model.score_vectors(first, second), model.score(PAIRS), atol=1e-6)
    u, v = torch.from_numpy(first), torch.from_numpy(second)
    compared = model.compare(u, v).detach().numpy()
    np.testing.assert_allclose(compared, model.grade_vectors(first, second), atol=1e-6)


@pytest.mark.parametrize("model", EMBEDDERS, indirect=True)
def test_similarity_is_the_matrix_of_scores(model: Embedder) -> None:
    matrix = model.similarity(TEXTS[:3], TEXTS[1:])
    expected = [model.score([(a, b) for b in TEXTS[1:]]) for a in TEXTS[:3]]
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    vectors = model.encode(TEXTS)
    np.testing.assert_allclose(model.similarity(vectors), model.similarity(TEXTS), atol=1e-5)
    assert model.similarity(torch.from_numpy(vectors), vectors[0]).shape == (4, 1)


def test_similarity_and_encode_are_those_of_sentence_transformers(
    tiny_bert: Path, tmp_path: Path
) -> None:
    ours = tertium.load(tiny_bert)
    ours.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    options: dict[str, Any] = {
        "batch_size": 2,
        "show_progress_bar": False,
        "normalize_embeddings": True,
        "convert_to_tensor": True,
    }
    found, expected = (each.encode(TEXTS, **options) for each in (ours, theirs))
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    plain = ours.encode(TEXTS, convert_to_numpy=True)
    np.testing.assert_allclose(plain, theirs.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(
        ours.similarity(plain, plain[:2]), theirs.similarity(plain, plain[:2]), atol=1e-5
    )
    with pytest.raises(TypeError, match="batchsize"):
        ours.encode(TEXTS, batchsize=2)
    with pytest.raises(ValueError, match="at least 1"):
        ours.encode(TEXTS, batch_size=0)


def test_ensembles_take_the_same_options(models: dict[str, Model]) -> None:
    both = models["ensemble"]
    found = both.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True, batch_size=1)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, both.encode(TEXTS, normalize=True), atol=1e-5)


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_rank_is_the_order_of_scores(model: Model) -> None:
    condition = "the animal" if model.takes_conditions else None
    found = model.rank(TEXTS[0], TEXTS, condition=condition)
    asked = [(TEXTS[0], text, *([condition] if condition else [])) for text in TEXTS]
    scores = model.score(asked)
    assert [hit.text for hit in found] == [TEXTS[int(hit.id)] for hit in found]
    np.testing.assert_allclose([hit.score for hit in found], np.sort(scores)[::-1], atol=1e-5)
    best = model.rank(TEXTS[0], TEXTS, condition=condition, top_k=2)
    assert [hit.id for hit in best] == [hit.id for hit in found[:2]]
    assert model.rank("a", [], condition=condition) == []


def test_a_condition_is_refused_where_none_is_taken(models: dict[str, Model]) -> None:
    with pytest.raises(TertiumError, match="does not take conditions"):
        models["pair"].rank("a", ["b"], condition="c")


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_a_fingerprint_survives_saving_and_tells_models_apart(
    model: Model, models: dict[str, Model], tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    assert tertium.load(tmp_path / "model").fingerprint == model.fingerprint
    assert len({each.fingerprint for each in models.values()}) == len(models)


def test_a_fingerprint_changes_with_weights_and_settings(tiny_bert: Path) -> None:
    encoder = tertium.load(tiny_bert).encoder
    found = [encoder.fingerprint, tertium.load(tiny_bert, pooling="cls").fingerprint]
    short = tertium.load(tiny_bert, max_length=8).encoder
    found.append(short.fingerprint)
    assert short.graph_fingerprint == encoder.graph_fingerprint
    with torch.no_grad():
        next(encoder.backbone.parameters()).add_(1)
    found.append(encoder.fingerprint)
    assert len(set(found)) == 4


class Given(Embedder):
    """The least that a class of one's own must define."""

    name = "given"
    dimension = 2

    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        return np.array([[len(text), 1.0] for text in texts], np.float32)


def test_a_model_of_ones_own() -> None:
    given = Given()
    assert given.score([("a", "b")])[0] == pytest.approx(1)
    assert [hit.text for hit in given.rank("aa", ["", "aaa"])] == ["aaa", ""]
    assert given.similarity(["a", "bb"]).shape == (2, 2)
    assert given.members == given.parts == given.encoders == () and given.pooling is None
    assert given.fingerprint == Given().fingerprint
    assert given.explain("a b", "a c").alignment is None
    assert repr(given) == "Given('given', scale=(-1, 1))"
    with pytest.raises(TertiumError, match="not made of encoders"):
        _ = given.encoder
    with pytest.raises(TertiumError, match="cannot be saved"):
        given.save("x")


def test_pushed_to_the_hub_and_loaded_from_it(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hub:
        """A hub in a folder."""

        def __init__(self, token: str | None = None) -> None:
            assert token == "secret"

        def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> None:
            (tmp_path / repo_id).mkdir(parents=True, exist_ok=exist_ok)

        def upload_folder(self, *, repo_id: str, folder_path: Path, **options: Any) -> Any:
            assert options == {"revision": None, "commit_message": "Add a model of tertium"}
            shutil.copytree(folder_path, tmp_path / repo_id, dirs_exist_ok=True)
            return type("Commit", (), {"commit_url": f"https://hub/{repo_id}"})

    def snapshot(repo_id: str, **options: Any) -> str:
        return str(tmp_path / repo_id)

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    model = tertium.load(tiny_bert, pooling="cls")
    assert model.push_to_hub("someone/small", token="secret") == "https://hub/someone/small"
    again = tertium.load("someone/small")
    assert again.pooling is Pooling.CLS and again.fingerprint == model.fingerprint


@pytest.mark.parametrize("model", KINDS, indirect=True)
def test_a_manifest_is_read_once(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path / "model")
    read: list[Path] = []
    original = loading.read_manifest

    def reading(folder: Path) -> Any:
        read.append(folder)
        return original(folder)

    for name in ("loading", "encoder", "light", "static", "pair", "conditional"):
        monkeypatch.setattr(f"tertium.models.{name}.read_manifest", reading)
    tertium.load(tmp_path / "model", engine="torch")
    assert len(set(read)) == len(read) == len(list((tmp_path / "model").rglob("tertium.json")))


def test_the_contract_needs_no_torch() -> None:
    script = """
import sys
import tertium.models.base, tertium.models.mixture, tertium.models.names, tertium.models.tokens
assert "torch" not in sys.modules and "transformers" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
