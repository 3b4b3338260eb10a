from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from tertium import models
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import CosineHead, PairHead, SiameseHead
from tertium.models import Encoder, PairScorer
from tertium.models.adapters import apply_adapter, extract_adapter
from tertium.models.base import Embedder
from tertium.records.manifest import TrainingData
from tertium.types import Kind, Pooling

GRADES = OrderedLabels(0.0, 5.0)
NLI = OrderedLabels.named(["contradiction", "neutral", "entailment"])
PAIRS = [("the cat sleeps .", "the dog barks ."), ("a b", "a b"), ("x", "y z"), ("", "a")]
TEXTS = [text for pair in PAIRS for text in pair]


def head_of(kind: str) -> PairHead:
    if kind == "cosine":
        return CosineHead(low=0.0, high=5.0)
    return SiameseHead(dimension=32, outputs=3 if kind == "classifier" else 1, seed=3)


def scorer_of(folder: Path, kind: str, labels: OrderedLabels = GRADES) -> PairScorer:
    encoder = models.load(folder)
    assert isinstance(encoder, Encoder)
    encoder.training_data = (TrainingData(name="STS-B", split="train"),)
    return PairScorer(encoder, head_of(kind), labels)


@pytest.fixture(scope="module")
def scorer(tiny_bert: Path) -> PairScorer:
    return scorer_of(tiny_bert, "cosine")


def test_it_is_a_scorer_and_an_embedder(scorer: PairScorer) -> None:
    assert isinstance(scorer, Embedder) and not scorer.takes_conditions
    assert scorer.scale == (0.0, 5.0)
    assert (scorer.dimension, scorer.pooling) == (32, Pooling.MEAN)


def test_scores_are_the_heads_within_the_scale(scorer: PairScorer) -> None:
    scores = scorer.score(PAIRS)
    expected = np.clip(5 * scorer.cosine(PAIRS), 0, 5)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert scores.dtype == np.float32 and scores.shape == (4,)
    assert scores[1] == pytest.approx(5.0)
    with torch.no_grad():
        scorer.head.slope.mul_(-10)  # type: ignore[union-attr]
    try:
        assert scorer.score(PAIRS).min() == 0.0
    finally:
        with torch.no_grad():
            scorer.head.slope.div_(-10)  # type: ignore[union-attr]


def test_classes_are_the_nearest_labels(scorer: PairScorer, tiny_bert: Path) -> None:
    scores = scorer.score(PAIRS)
    assert scorer.classify(PAIRS) == [float(np.floor(score + 0.5)) for score in scores]
    named = scorer_of(tiny_bert, "siamese", NLI)
    expected = [NLI.names[round(float(s))] for s in named.score(PAIRS)]  # type: ignore[index]
    assert named.classify(PAIRS) == expected


def test_embeddings_and_cosines_are_the_encoders(scorer: PairScorer) -> None:
    np.testing.assert_array_equal(scorer.encode(TEXTS), scorer.encoder.encode(TEXTS))
    np.testing.assert_allclose(scorer.cosine(PAIRS), scorer.encoder.score(PAIRS), atol=1e-6)
    assert scorer.encode("a b").shape == (32,)


def test_a_classifier_gives_the_expected_label(tiny_bert: Path) -> None:
    labels = OrderedLabels.named(["low", "middle", "high"], low=1.0, step=2.0)
    scorer = scorer_of(tiny_bert, "classifier", labels)
    u, v = (torch.from_numpy(scorer.encode([p[side] for p in PAIRS])) for side in (0, 1))
    with torch.no_grad():
        probabilities = scorer.head(u, v).softmax(dim=1).tolist()
    expected = [1 * a + 3 * b + 5 * c for a, b, c in probabilities]
    np.testing.assert_allclose(scorer.score(PAIRS), expected, atol=1e-5)


def test_no_pairs_give_no_scores(scorer: PairScorer) -> None:
    assert scorer.score([]).shape == (0,)
    assert scorer.cosine([]).shape == (0,)
    assert scorer.classify([]) == []


@pytest.mark.parametrize("bad", [("a", "b", "c"), ("a",), "ab"])
def test_what_is_no_pair_is_refused(scorer: PairScorer, bad: object) -> None:
    for ask in (scorer.score, scorer.cosine, scorer.classify):
        with pytest.raises(TertiumError, match=r"pairs\[1\] is .*not a pair"):
            ask([("a", "b"), bad])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", ["cosine", "siamese", "classifier"])
def test_a_saved_scorer_comes_back_exactly(kind: str, tiny_bert: Path, tmp_path: Path) -> None:
    labels = NLI if kind == "classifier" else GRADES
    scorer = scorer_of(tiny_bert, kind, labels)
    scorer.save(tmp_path / "model")
    loaded = models.load(tmp_path / "model")
    assert isinstance(loaded, PairScorer)
    assert loaded.labels == labels and loaded.scale == scorer.scale
    assert loaded.training_data == scorer.training_data
    np.testing.assert_array_equal(loaded.score(PAIRS), scorer.score(PAIRS))
    np.testing.assert_array_equal(loaded.encode(TEXTS), scorer.encode(TEXTS))
    loaded.save(tmp_path / "model")  # over itself
    np.testing.assert_array_equal(models.load(tmp_path / "model").score(PAIRS), scorer.score(PAIRS))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_it_loads_in_plain_sentence_transformers(scorer: PairScorer, tmp_path: Path) -> None:
    scorer.save(tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(plain.encode(TEXTS), scorer.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "siamese"])
@pytest.mark.parametrize("normalize", [False, True])
def test_an_adapter_gives_the_scores_of_the_merged_model(
    kind: str,
    normalize: bool,
    tiny_bert: Path,
    tmp_path: Path,
    reserve: Callable[[str, Path], str],
) -> None:
    scorer = scorer_of(tiny_bert, kind)
    seen = scorer.training_data
    encoder = scorer.encoder.with_pooling(Pooling.CLS, normalize=normalize)
    scorer = PairScorer(encoder, scorer.head, scorer.labels)
    base = models.load(tiny_bert)
    assert isinstance(base, Encoder)
    tuned = {
        name: tensor if "embeddings" in name else tensor + 0.05 * torch.randn_like(tensor)
        for name, tensor in base.backbone.state_dict().items()
    }
    adapter = extract_adapter(base.backbone, tuned, rank=3)
    apply_adapter(scorer.encoder.backbone, adapter)
    scorer.save(tmp_path / "merged")
    scorer.save_adapter(tmp_path / "adapter", adapter, base=reserve("tiny", tiny_bert))
    merged, adapted = models.load(tmp_path / "merged"), models.load(tmp_path / "adapter")
    assert isinstance(adapted, PairScorer)
    np.testing.assert_array_equal(adapted.score(PAIRS), merged.score(PAIRS))
    np.testing.assert_array_equal(adapted.encode(TEXTS), merged.encode(TEXTS))
    assert adapted.pooling is merged.pooling is Pooling.CLS
    assert adapted.training_data == seen
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == [
        "adapter.safetensors",
        "head.safetensors",
        "tertium.json",
    ]
    assert models.load(tmp_path / "adapter", pooling="mean").pooling is Pooling.MEAN
    shorter = models.load(tmp_path / "adapter", max_length=8)
    assert isinstance(shorter, PairScorer) and shorter.encoder.max_length == 8


def test_folders_that_hold_no_scorer(scorer: PairScorer, tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="does not contain a pair scorer"):
        PairScorer.load(tiny_bert)
    with pytest.raises(TertiumError, match="does not contain a pair scorer"):
        PairScorer.load_adapter(tiny_bert, Encoder.load(tiny_bert))
    scorer.save(tmp_path / "model")
    (tmp_path / "model" / "head.safetensors").unlink()
    with pytest.raises(TertiumError, match=r"head\.safetensors cannot be read"):
        models.load(tmp_path / "model")


def test_a_head_of_another_shape_is_refused(scorer: PairScorer, tmp_path: Path) -> None:
    scorer.save(tmp_path / "model")
    save_file({"slope": torch.tensor(1.0)}, tmp_path / "model" / "head.safetensors")
    with pytest.raises(TertiumError, match="does not fit the head"):
        models.load(tmp_path / "model")


def test_the_kind_is_written(scorer: PairScorer, tmp_path: Path) -> None:
    from tertium.records.manifest import read_manifest

    scorer.save(tmp_path / "model")
    manifest = read_manifest(tmp_path / "model")
    assert manifest is not None and manifest.kind is Kind.PAIR
    assert manifest.scale == (0.0, 5.0)
    assert manifest.details["head"] == {"kind": "cosine"}
