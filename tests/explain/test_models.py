from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium.data.labels import OrderedLabels
from tertium.engines.static import distil_static
from tertium.errors import TertiumError
from tertium.explain import Explanation
from tertium.heads import CosineHead, SiameseHead
from tertium.models import ConditionalAverage, Encoder, Ensemble, PairScorer
from tertium.models.tokens import BlankConditionWarning
from tests.models.test_conditional import scorer_of

PAIR = ("the cat sleeps .", "a dog")
HEADS = [
    {"kind": "cross"},
    {"kind": "seaver"},
    {"kind": "seaver", "layers": "mix"},
    {"kind": "rand_aug"},
    {"kind": "bi", "subtract": 0.5},
    {"kind": "bi", "pooling": "condition"},
    {"kind": "tri"},
]


def encoder_of(folder: Path) -> Encoder:
    encoder = tertium.load(folder, engine="torch")
    assert isinstance(encoder, Encoder)
    return encoder


def adds_up(found: Explanation) -> None:
    """Integrated gradients of each text lead from its baseline to the score."""
    assert found.gradients is not None and found.gradients.error < 0.02
    reach = found.scale[1] - found.scale[0]
    for values, base in zip(found.gradients.contributions, found.gradients.baselines, strict=True):
        assert sum(values) + base == pytest.approx(found.unclipped, abs=0.02 * reach)


@pytest.mark.parametrize(
    "head",
    [
        SiameseHead(dimension=32),
        SiameseHead(dimension=32, outputs=6),
        CosineHead(low=0.0, high=9.0),
    ],
    ids=["regression", "classes", "cosine"],
)
def test_a_grade(head: Any, tiny_bert: Path) -> None:
    scorer = PairScorer(encoder_of(tiny_bert), head, OrderedLabels(0.0, 5.0))
    found = scorer.explain(*PAIR, method="gradients")
    assert found.score == pytest.approx(float(scorer.score([PAIR])[0]), abs=1e-5)
    assert found.smallest.by == 1.0 and found.scale == (0.0, 5.0)
    adds_up(found)


def test_beyond_the_scale(tiny_bert: Path) -> None:
    head = CosineHead(low=0.0, high=9.0)
    scorer = PairScorer(encoder_of(tiny_bert), head, OrderedLabels(0.0, 5.0))
    found = scorer.explain("the cat sleeps", "the cat sleeps")
    assert found.score == 5.0 and found.unclipped == pytest.approx(9.0, abs=1e-4)
    assert 0.0 <= found.smallest.score <= 4.0 or not found.smallest.reached


def test_an_ensemble_of_models_with_other_tokens(tiny_bert: Path, tiny_roberta: Path) -> None:
    one, two = encoder_of(tiny_bert), encoder_of(tiny_roberta)
    ensemble = Ensemble([one, two, one], weights=[0.5, 2.0, 0.5])
    found = ensemble.explain("the cat's nap", "a dog", method="gradients")
    assert found.score == pytest.approx(float(ensemble.score([("the cat's nap", "a dog")])[0]))
    adds_up(found)
    parts = [np.array(m.explain("the cat's nap", "a dog").alignment) for m in (one, two)]
    assert np.array(found.alignment) == pytest.approx((parts[0] + 2 * parts[1]) / 3, abs=1e-5)


def test_a_static_model_shows_occlusion_alone(tiny_bert: Path) -> None:
    static = distil_static(encoder_of(tiny_bert))
    found = static.explain(*PAIR)
    assert found.alignment is None and "static" in found.notes[0]
    without = float(static.score([("the sleeps .", "a dog")])[0])
    assert found.occlusion[0][1] == pytest.approx(found.score - without, abs=1e-6)
    with pytest.raises(TertiumError, match="static"):
        static.explain(*PAIR, method="gradients")


@pytest.mark.parametrize("config", HEADS, ids=str)
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_triple(config: dict[str, Any], name: str, request: pytest.FixtureRequest) -> None:
    scorer = scorer_of(request.getfixturevalue(f"tiny_{name}"), config)
    found = scorer.explain(" the cat", "a dog .", condition="x y", method="gradients")
    words = [[word.text for word in own] for own in found.words]
    assert words == [["the", "cat"], ["a", "dog", "."]] and found.condition == "x y"
    expected = scorer.score([("the cat", "a dog .", "x y")])[0]
    assert found.score == pytest.approx(float(expected), abs=1e-5)
    adds_up(found)
    assert np.shape(found.alignment) == (2, 3)
    assert (found.focus is None) == (config["kind"] == "tri")
    if found.focus is not None:
        assert found.focus.words == ("the", "cat", "a", "dog", ".")
        assert found.focus.unconditioned.shape == (5, 5)
        assert found.focus.reallocates == (config["kind"] in ("seaver", "rand_aug"))
        assert not np.allclose(found.focus.unconditioned, found.focus.attention, equal_nan=True)


def test_the_gradient_of_training_is_as_it_was(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "seaver"})
    scorer.explain("the cat", "a dog", condition="x", method="gradients")
    assert scorer.head.gradient == "states"  # type: ignore[union-attr]


def test_an_average(tiny_bert: Path) -> None:
    members = [scorer_of(tiny_bert, {"kind": kind}) for kind in ("tri", "bi", "seaver")]
    average = ConditionalAverage(members, weights=[1.0, 1.0, 2.0])
    found = average.explain("the cat", "a dog", condition="x", method="gradients")
    adds_up(found)
    parts = [member.explain("the cat", "a dog", condition="x") for member in members]
    mean = sum(w * np.array(p.occlusion[0]) for w, p in zip((1, 1, 2), parts, strict=True)) / 4
    assert np.array(found.occlusion[0]) == pytest.approx(mean, abs=1e-5)
    assert found.focus is not None and not np.isnan(found.focus.attention).any()  # SEAVER's


def test_no_condition(tiny_bert: Path) -> None:
    scorer = scorer_of(tiny_bert, {"kind": "seaver"})
    with pytest.warns(BlankConditionWarning) as seen:
        found = scorer.explain("the cat", "a dog")
    assert len(seen) == 1 and found.condition is None and found.focus is None
    with pytest.warns(BlankConditionWarning):
        expected = scorer.score([("the cat", "a dog", "")])[0]
    assert found.score == pytest.approx(float(expected), abs=1e-5)


def test_an_engine_shows_occlusion_alone(tiny_bert: Path) -> None:
    class Engine:
        name = "openvino"

        def run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
            return inputs["attention_mask"].sum(axis=(0, 2)).astype(np.float32) / 20

    scorer = scorer_of(tiny_bert, {"kind": "seaver"})
    scorer.engine = Engine()
    found = scorer.explain("the cat", "a dog", condition="x")
    assert found.occlusion == (pytest.approx((0.2, 0.2), abs=1e-5),) * 2  # a token each
    assert found.alignment is None and found.focus is None and "engine torch" in found.notes[0]
