from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tertium
from tertium.encoders import Encoder
from tertium.encoders.explanation.explain import Explains
from tertium.encoders.explanation.readings import Reading
from tertium.encoders.explanation.sequences import pair_reading, triple_reading
from tertium.errors import TertiumError
from tertium.functional import cosine_pairs
from tertium.inference import ConditionalScorer
from tests.inference.test_conditional import scorer_of

PAIR = ("the cat sleeps , bx .", "a dog barks")
HEADS = [
    {"kind": "cross"},
    {"kind": "seaver", "layers": "mix"},
    {"kind": "bi", "subtract": 0.5},
    {"kind": "tri"},
]


class Pairs(Explains):
    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.scale = encoder, (-1.0, 1.0)

    def score_items(self, items: list[tuple[str, ...]]) -> np.ndarray:
        return self.encoder.score([(a, b) for a, b in items])

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        return [pair_reading(self.encoder, texts, cosine_pairs)]


class Triples(Explains):
    def __init__(self, scorer: ConditionalScorer) -> None:
        self.scorer, self.scale = scorer, scorer.scale

    def score_items(self, items: list[tuple[str, ...]]) -> np.ndarray:
        return self.scorer.score([(a, b, c) for a, b, c in items], within_scale=False)

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        return [triple_reading(self.scorer.model.eval(), texts, low=1.0, high=5.0)]


@pytest.fixture(params=["bert", "roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    loaded = tertium.load(request.getfixturevalue(f"tiny_{request.param}"))
    assert isinstance(loaded, Encoder)
    return loaded


def test_a_pair(encoder: Encoder) -> None:
    model = Pairs(encoder)
    found = model.explain(*PAIR, gradients=True)
    assert found.words == (("the", "cat", "sleeps", ",", "bx", "."), ("a", "dog", "barks"))
    assert found.score == pytest.approx(float(encoder.score([PAIR])[0]), abs=1e-6)
    fallen = encoder.score([("the sleeps , bx .", PAIR[1])])[0]
    assert found.occlusion[0][1] == pytest.approx(found.score - float(fallen), abs=1e-6)
    assert found.alignment.shape == (6, 3) and (found.alignment.abs() <= 1 + 1e-5).all()
    assert found.gradients is not None and found.gradients.error < 0.02
    summed = sum(map(sum, found.gradients.contributions)) + found.gradients.baseline
    assert summed == pytest.approx(found.score, abs=0.02)
    again = model.explain(*PAIR, gradients=True)
    assert again.gradients == found.gradients and again.occlusion == found.occlusion


def test_alignment_of_the_same_text_is_highest_on_the_diagonal(encoder: Encoder) -> None:
    found = Pairs(encoder).explain("the cat sleeps", "the cat sleeps").alignment
    torch.testing.assert_close(found.diagonal(), torch.ones(3))
    assert (found.argmax(dim=1) == torch.arange(3)).all()


@pytest.mark.parametrize("config", HEADS, ids=str)
def test_a_triple(config: dict[str, Any], tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, config)
    found = Triples(scorer).explain(" the cat", "a dog .", on="x y", gradients=True)
    assert found.words == (("the", "cat"), ("a", "dog", ".")) and found.condition == "x y"
    expected = scorer.score([("the cat", "a dog .", "x y")], within_scale=False)[0]
    assert found.score == pytest.approx(float(expected), abs=1e-5)
    assert found.gradients is not None and found.gradients.error < 0.05
    summed = sum(map(sum, found.gradients.contributions)) + found.gradients.baseline
    assert summed == pytest.approx(found.score, abs=0.05)


def test_one_word_alone_makes_the_whole_change(encoder: Encoder) -> None:
    found = Pairs(encoder).explain("cat", "dog")
    empty = float(encoder.score([("", "dog")])[0])
    assert found.score - found.occlusion[0][0] == pytest.approx(empty, abs=1e-6)


def test_the_smallest_change(encoder: Encoder) -> None:
    found = Pairs(encoder).explain(*PAIR, moved=1e-4)
    assert len(found.smallest.removed) == 1 and found.smallest.reached
    assert found.word(found.smallest.removed[0]) in PAIR[0] + PAIR[1]


def test_nothing_to_explain(encoder: Encoder) -> None:
    with pytest.raises(TertiumError, match="Neither text has a word"):
        Pairs(encoder).explain(" ", "")
