"""Cross-encoders that sentence-transformers saved give its scores, on a scale that is stated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

import tertium
from tertium.errors import TertiumError, TertiumWarning
from tertium.models.loading import as_embedder

PAIRS = [("the cat sleeps .", "a dog barks"), ("a b c", "a b c"), ("", "x"), ("a b c", "a b c")]


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


def test_words_can_be_left_out_and_long_pairs_are_counted(tiny_bert: Path, tmp_path: Path) -> None:
    saved(tiny_bert, tmp_path / "cross")
    ours: Any = tertium.load(tmp_path / "cross")
    found = ours.explain("the cat sleeps", "a dog barks", most=0)
    assert len(found.occlusion[0]) == 3
    with pytest.warns(TertiumWarning, match="1 of 1 .* had more than"):
        ours.score([("a cat " * 400, "a dog")])
