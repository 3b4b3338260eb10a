from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium import models
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import CONDITIONAL_HEADS
from tertium.models import ConditionalScorer, CrossScorer
from tertium.models.conditional import model_shape
from tertium.models.loading import as_embedder
from tertium.types import Kind

PAIRS = [
    ("the cat sleeps .", "the dog barks ."),
    ("the dog barks .", "the cat sleeps ."),
    ("a b c d e f g h", "x y"),
    ("", "a"),
    ("a", "a"),
]


def judge_of(folder: Path, *, order: Any = "both") -> CrossScorer:
    encoder = models.load(folder).encoder
    head = CONDITIONAL_HEADS["cross"](model_shape(encoder), regressor="mean", seed=3)
    return CrossScorer(ConditionalScorer(encoder, head, OrderedLabels(0.0, 1.0)), order=order)


def test_a_cross_encoder_reads_a_pair_both_ways_round(tiny_bert: Path) -> None:
    judge, once = judge_of(tiny_bert), judge_of(tiny_bert, order="given")
    swapped = [(b, a) for a, b in PAIRS]
    np.testing.assert_allclose(judge.score_items(PAIRS), judge.score_items(swapped), atol=1e-6)
    both = (once.score_items(PAIRS) + once.score_items(swapped)) / 2
    np.testing.assert_allclose(judge.score_items(PAIRS), both, atol=1e-6)
    assert abs(once.score_items(PAIRS) - once.score_items(swapped)).max() > 1e-4
    assert judge.fingerprint != once.fingerprint


@pytest.mark.parametrize("order", ["both", "given"])
def test_a_cross_encoder_comes_back(tiny_bert: Path, tmp_path: Path, order: str) -> None:
    judge = judge_of(tiny_bert, order=order)
    judge.save(tmp_path / "judge")
    loaded = tertium.load(tmp_path / "judge", engine="torch")
    assert isinstance(loaded, CrossScorer) and loaded.kind is Kind.CROSS
    assert loaded.order == order and loaded.fingerprint == judge.fingerprint
    np.testing.assert_allclose(loaded.score_items(PAIRS), judge.score_items(PAIRS), atol=1e-6)
    by_engine = tertium.load(tmp_path / "judge", engine="onnx")
    np.testing.assert_allclose(by_engine.score_items(PAIRS), judge.score_items(PAIRS), atol=1e-4)
    with pytest.raises(TertiumError, match="reading them together and gives no vectors"):
        as_embedder(loaded)
    with pytest.raises(TertiumError, match="does not take conditions"):
        loaded.rank("a", ["b"], condition="c")
