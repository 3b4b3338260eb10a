"""Cross-encoders that sentence-transformers saved give its scores, on a scale that is stated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import AlbertConfig, AutoModel, AutoTokenizer, DistilBertConfig, ElectraConfig

import tertium
from tertium.errors import TertiumError, TertiumWarning
from tertium.models.loading import as_embedder
from tests.fakes import tiny_model

PAIRS = [("the cat sleeps .", "a dog barks"), (" a b c ", "a b c"), ("", "x"), ("a b c", "a b c")]
LONG = [("a " * 70, "b " * 70), ("a " * 40, "b " * 90), ("a " * 90, "b c " * 10), ("", "")]


def saved(bert: Path, folder: Path, *, labels: int = 1, activation: Any = None) -> CrossEncoder:
    torch.manual_seed(0)
    model = CrossEncoder(str(bert), num_labels=labels, device="cpu", activation_fn=activation)
    model.save(str(folder))
    return model


def test_scores_are_those_of_predict(tiny_bert: Path, tmp_path: Path) -> None:
    theirs = saved(tiny_bert, tmp_path / "cross")
    ours: Any = tertium.load(tmp_path / "cross")
    assert (ours.scale, ours.activation, str(ours.kind)) == ((0.0, 1.0), "Sigmoid", "cross")
    np.testing.assert_allclose(ours.score(PAIRS), theirs.predict(PAIRS), atol=1e-6)
    best = max(["x", "a b c"], key=lambda text: ours.score([("a b c", text)])[0])
    assert ours.rank("a b c", ["x", "a b c"])[0].text == best
    ours.save(tmp_path / "again")
    again: Any = tertium.load(tmp_path / "again")
    assert again.fingerprint == ours.fingerprint
    with pytest.raises(TertiumError, match="reading them together and gives no vectors"):
        as_embedder(ours)


def _backbone(kind: str, folder: Path) -> Path:
    """A tiny random backbone with a tokenizer."""
    if kind in ("bert", "roberta"):
        return tiny_model(folder, kind)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model(folder, "bert"))
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "max_position_embeddings": 66}
    if kind == "distilbert":
        config: Any = DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, **sizes)
    else:
        inner = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        class_ = {"electra": ElectraConfig, "albert": AlbertConfig}[kind]
        config = class_(embedding_size=32, intermediate_size=64, **inner, **sizes)
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra"])
def test_every_way_gives_the_scores_of_predict(kind: str, tmp_path: Path) -> None:
    theirs = saved(_backbone(kind, tmp_path / "base"), tmp_path / "cross")
    expected = theirs.predict(PAIRS)
    found = {
        engine: tertium.load(tmp_path / "cross", engine=engine)
        for engine in ("torch", "onnx", "default")
    }
    for engine, model in found.items():
        np.testing.assert_allclose(model.score(PAIRS), expected, atol=2e-6, err_msg=engine)
        by_passages = found["torch"].score(LONG)
        np.testing.assert_allclose(model.score(LONG), by_passages, atol=2e-6, err_msg=engine)
    assert len({model.fingerprint for model in found.values()}) == 1
    light = kind != "electra"  # which has no graph of ours
    assert (found["default"].parts[0].engine is not None) == light
    assert found["onnx"].parts[0].engine is not None


def test_an_unknown_architecture_stays_with_torch(tmp_path: Path) -> None:
    theirs = saved(_backbone("albert", tmp_path / "base"), tmp_path / "cross")
    ours = tertium.load(tmp_path / "cross")
    np.testing.assert_allclose(ours.score(PAIRS), theirs.predict(PAIRS), atol=1e-6)
    assert ours.score([]).shape == (0,)
    with pytest.raises(TertiumError, match="runs only on torch"):
        tertium.load(tmp_path / "cross", engine="onnx")
    long = ("a cat " * 400, "a dog")
    alignment = ours.align([long])
    assert alignment is not None and len(alignment.places[0][0]) > 9
    np.testing.assert_allclose(ours.score([long]), alignment.score(ours.score), atol=1e-6)
    ours.save(tmp_path / "again")
    assert tertium.load(tmp_path / "again").fingerprint == ours.fingerprint


def test_a_decision_is_fitted_and_sentence_transformers_reads_on(
    tiny_bert: Path, tmp_path: Path
) -> None:
    theirs = saved(tiny_bert, tmp_path / "cross")
    words = ["cat", "dog", "sleeps", "barks", "the", *"abcdefghijklmno"]
    rows = [f"{word}\t{word if at % 2 else 'x y'}\t{at % 2}" for at, word in enumerate(words)]
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\n" + "\n".join(rows))
    tertium.fit(tmp_path / "cross", tmp_path / "pairs.tsv", tmp_path / "fitted")
    fitted = tertium.load(tmp_path / "fitted")
    assert fitted.decision is not None and fitted.decide(PAIRS)[0].answer in ("yes", "no")
    again = CrossEncoder(str(tmp_path / "fitted"), device="cpu")
    np.testing.assert_allclose(again.predict(PAIRS), theirs.predict(PAIRS), atol=1e-6)
    np.testing.assert_allclose(fitted.score(PAIRS), theirs.predict(PAIRS), atol=1e-6)


def test_logits_get_a_scale_and_it_is_said(tiny_bert: Path, tmp_path: Path) -> None:
    theirs = saved(tiny_bert, tmp_path / "logits", activation=torch.nn.Identity())
    with pytest.warns(TertiumWarning, match="gives logits, which have no scale"):
        ours: Any = tertium.load(tmp_path / "logits")
    logits = theirs.predict(PAIRS)
    np.testing.assert_allclose(ours.score(PAIRS), 1 / (1 + np.exp(-logits)), atol=1e-6)


def test_what_does_not_grade_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    saved(tiny_bert, tmp_path / "nli", labels=3)
    with pytest.raises(TertiumError, match="a classifier of 3 classes"):
        tertium.load(tmp_path / "nli")
    saved(tiny_bert, tmp_path / "tanh", activation=torch.nn.Tanh())
    with pytest.raises(TertiumError, match="the activation Tanh has no scale"):
        tertium.load(tmp_path / "tanh")


def test_words_can_be_left_out_and_long_pairs_are_compared_by_passages(
    tiny_bert: Path, tmp_path: Path
) -> None:
    saved(tiny_bert, tmp_path / "cross")
    ours: Any = tertium.load(tmp_path / "cross")
    found = ours.explain("the cat sleeps", "a dog barks", most=0)
    assert len(found.occlusion[0]) == 3
    long = "a cat sleeps . " * 40 + "the dog barks . " * 40
    alignment = ours.align([(long, "a dog")])
    assert alignment is not None and alignment.parts[-1] == "a dog"
    parts = ours.score([(part, "a dog") for part in alignment.parts])
    first = [parts[at] for at in alignment.places[0][0]]
    (score,) = ours.score([(long, "a dog")])
    assert score == pytest.approx((np.mean(first) + np.max(first)) / 2, abs=1e-5)
