from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import CrossEncoder

from tertium import models
from tertium.data.labels import OrderedLabels
from tertium.engines.loading import load_embedder
from tertium.errors import TertiumError
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import ConditionalScorer, Encoder
from tertium.models import attention as capturing
from tertium.models.base import Embedder, TripleScorer
from tertium.models.conditional import model_shape
from tertium.models.loading import as_conditional
from tertium.models.tokens import BlankConditionWarning, TruncationWarning
from tertium.records.manifest import TrainingData, read_manifest
from tertium.types import Kind
from tests.heads.test_conditional import SETTINGS as HEADS

GRADES = OrderedLabels(1.0, 5.0)
TRIPLES = [
    ("the cat sleeps .", "the dog barks .", "the cat"),
    ("a", "b", "c"),
    ("a b c d e f g h", "x y", "the dog"),
    ("x", "y", "a b c d e f g h i j k l"),
    ("a [SEP] b", "c </s> d", "e"),
    ("", "a", "b"),
    ("a", "a", "b"),
]
SETTINGS: list[dict[str, Any]] = [
    {**config, "length": 40} if config.get("regressor") == "flatten" else config for config in HEADS
]


def scorer_of(folder: Path, config: dict[str, Any]) -> ConditionalScorer:
    encoder = models.load(folder)
    assert isinstance(encoder, Encoder)
    encoder.training_data = (TrainingData(name="C-STS", split="train"),)
    settings = dict(config)
    head = CONDITIONAL_HEADS[settings.pop("kind")](model_shape(encoder), seed=4, **settings)
    return ConditionalScorer(encoder, head, GRADES)


@pytest.fixture(params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(f"tiny_{request.param}")
    return folder


def raw(scorer: ConditionalScorer, triples: Any = TRIPLES, **options: Any) -> np.ndarray:
    return scorer.score(triples, within_scale=False, **options)


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_padding_batch_size_order_and_copies_make_no_difference(
    config: dict[str, Any], model: Path
) -> None:
    scorer = scorer_of(model, config)
    together = raw(scorer)
    assert together.shape == (len(TRIPLES),) and together.dtype == np.float32
    one_by_one = np.concatenate([raw(scorer, [triple]) for triple in TRIPLES])
    np.testing.assert_allclose(together, one_by_one, atol=2e-5)
    np.testing.assert_allclose(raw(scorer, TRIPLES[::-1])[::-1], together, atol=2e-5)
    np.testing.assert_array_equal(raw(scorer, [TRIPLES[0]] * 3), raw(scorer, TRIPLES[:1]).repeat(3))
    inside = scorer.score(TRIPLES)
    assert ((inside >= 1) & (inside <= 5)).all()
    np.testing.assert_allclose(inside, together.clip(1, 5))


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_swapped_sentences(config: dict[str, Any], tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, config)
    swapped = [(b, a, c) for a, b, c in TRIPLES]
    one, two = raw(scorer), raw(scorer, swapped)
    if config["kind"] in ("bi", "tri"):
        np.testing.assert_allclose(one, two, atol=1e-5)
    else:
        assert not np.allclose(one, two, atol=1e-5)
    both = raw(scorer, order="both")
    np.testing.assert_allclose(both, (one + two) / 2, atol=1e-5)
    np.testing.assert_allclose(raw(scorer, swapped, order="both"), both, atol=1e-5)


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_a_blank_condition_is_left_out_with_a_warning(
    config: dict[str, Any], tiny_bert: Path
) -> None:
    scorer = scorer_of(tiny_bert, config)
    with pytest.warns(BlankConditionWarning, match="1 of 2 triples have no condition"):
        found = raw(scorer, [("a b", "c", " "), ("a b", "c", "d")])
    assert np.isfinite(found).all()
    if config["kind"] in ("bi", "tri") and config.get("pooling", "encoder") == "encoder":
        cosine = scorer.encoder.score([("a b", "c")])
        np.testing.assert_allclose(found[:1], 1 + 4 * cosine, atol=1e-5)


def test_texts_that_are_too_long_are_compared_by_passages(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "cross"})
    long = ("a " * 60 + "x " * 60, "b c", "d e")
    found = raw(scorer, [long, ("a", "b", "c")])
    alignment = scorer.align([long])
    assert alignment is not None and len(alignment.parts) > 2
    parts = raw(scorer, [(part, "b c", "d e") for part in alignment.parts])
    first = [parts[at] for at in alignment.places[0][0]]
    np.testing.assert_allclose(found[0], (np.mean(first) + np.max(first)) / 2, atol=1e-5)


def test_a_condition_that_is_too_long_is_cut_and_counted(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "cross"})
    with pytest.warns(TruncationWarning, match="1 of 2 triples had more than 64 tokens"):
        raw(scorer, [("a", "b c", "d e " * 50), ("a", "b", "c")])


def test_no_triples_give_no_scores(tiny_bert: Path) -> None:
    assert scorer_of(tiny_bert, {"kind": "seaver"}).score([]).shape == (0,)


def test_only_the_needed_layers_show_their_attention(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []
    usual = capturing.capture_attention

    def watched(backbone: Any, layers: Any) -> Any:
        asked.append(tuple(layers))
        return usual(backbone, layers)

    monkeypatch.setattr("tertium.models.encoder.capture_attention", watched)
    raw(scorer_of(tiny_bert, {"kind": "cross"}))
    assert asked == []
    raw(scorer_of(tiny_bert, {"kind": "seaver"}), TRIPLES[:1])
    assert asked == [(2,)]


def test_it_is_no_embedder(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "seaver"})
    assert isinstance(scorer, TripleScorer) and not isinstance(scorer, Embedder)


def test_scoring_leaves_the_mode_alone(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "cross"})
    for training in (True, False):
        scorer.model.train(training)
        raw(scorer)
        assert scorer.head.training is scorer.encoder.model.training is training


@pytest.mark.parametrize("config", SETTINGS, ids=str)
def test_a_saved_scorer_comes_back_exactly(
    config: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    scorer = scorer_of(model, config)
    scorer.save(tmp_path / "model")
    loaded = models.load(tmp_path / "model")
    assert isinstance(loaded, ConditionalScorer)
    np.testing.assert_array_equal(raw(loaded), raw(scorer))
    assert (loaded.scale, loaded.training_data) == (scorer.scale, scorer.training_data)
    manifest = read_manifest(tmp_path / "model")
    assert manifest is not None and manifest.kind is Kind.CONDITIONAL
    assert not list((tmp_path / "model").rglob("*.bin"))
    loaded.save(tmp_path / "model")  # over itself
    np.testing.assert_array_equal(raw(models.load(tmp_path / "model")), raw(scorer))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cross", "seaver", "rand_aug"])
def test_a_joint_model_is_a_cross_encoder(kind: str, tiny_bert: Path, tmp_path: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": kind})
    scorer.save(tmp_path / "model")
    plain = CrossEncoder(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(plain.predict(TRIPLES), scorer.score(TRIPLES), atol=1e-5)


def test_folders_that_hold_no_scorer(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="does not contain a conditional scorer"):
        ConditionalScorer.load(tiny_bert)
    scorer_of(tiny_bert, {"kind": "cross"}).save(tmp_path / "model")
    with pytest.raises(TertiumError, match="keeps the pooling"):
        models.load(tmp_path / "model", pooling="cls")
    save_file({"x": torch.zeros(1)}, tmp_path / "model" / "head.safetensors")
    with pytest.raises(TertiumError, match="does not fit the head"):
        models.load(tmp_path / "model")


def test_models_for_another_question_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    scorer_of(tiny_bert, {"kind": "cross"}).save(tmp_path / "model")
    with pytest.raises(TertiumError, match="gives no vectors"):
        load_embedder(tmp_path / "model")
    with pytest.raises(TertiumError, match=r"does not take conditions. 'conditional' does"):
        as_conditional(models.load(tiny_bert))
    assert isinstance(as_conditional(models.load(tmp_path / "model")), ConditionalScorer)
    with pytest.raises(TertiumError, match="reads 99 tokens, but the model only 64"):
        scorer_of(tiny_bert, {"kind": "cross", "regressor": "flatten", "length": 99})
