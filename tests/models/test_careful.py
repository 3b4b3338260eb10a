import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tertium
from tertium import models
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import HEADS
from tertium.models import CarefulScorer, Caution, PairScorer
from tertium.models.loading import as_embedder
from tertium.models.names import NAMES
from tertium.models.vectors import vectors_fingerprint
from tests.models.test_cross import PAIRS, judge_of


def careful_of(folder: Path, caution: Caution | None = None) -> CarefulScorer:
    encoder = models.load(folder).encoder
    fast = PairScorer(encoder, HEADS["cosine"](low=0.0, high=5.0), OrderedLabels(0.0, 5.0))
    return CarefulScorer(fast, judge_of(folder), caution or Caution(0.6, 0.1))


def test_a_contradiction_lowers_a_grade_and_agreement_does_not() -> None:
    grades = np.array([4.0, 4.0, 4.0, 1.0], np.float32)
    found = np.array([0.0, 0.5, 1.0, 1.0], np.float32)
    pairs = [("It is hot.", "It isn't cold.")] * 3 + [("It is hot.", "It isn't hot.")]

    def corrected(caution: Caution, low: float) -> Any:
        return caution.corrected(pairs, grades, found, (low, 5.0))

    np.testing.assert_allclose(corrected(Caution(0.5), 0.0), [4, 3, 2, 0.5])
    np.testing.assert_allclose(corrected(Caution(0.5, 0.5), 1.0), [4, 4, 2.5, 1], atol=1e-6)
    lifted = Caution(0.5, 0.5, lift=0.4)
    np.testing.assert_allclose(corrected(lifted, 1.0), [4.4, 4, 2.5, 1], atol=1e-6)


@pytest.mark.parametrize(("strength", "threshold"), [(-0.1, 0), (1.1, 0), (0.5, 1), (0.5, -1)])
def test_caution_has_limits(strength: float, threshold: float) -> None:
    with pytest.raises(TertiumError, match="words is 0 or more"):
        Caution(0.5, words=-1)
    with pytest.raises(TertiumError, match="lift lies from 0 to 1"):
        Caution(0.5, lift=2)
    with pytest.raises(TertiumError, match="caution"):
        Caution(strength, threshold)


def test_a_careful_scorer_is_the_fast_one_less_what_its_judge_takes(tiny_bert: Path) -> None:
    careful = careful_of(tiny_bert)
    doubt = careful.contradiction(PAIRS)
    unclipped = careful.caution.corrected(PAIRS, careful.fast.score_items(PAIRS), doubt, (0.0, 5.0))
    np.testing.assert_allclose(careful.score_items(PAIRS), unclipped, atol=1e-6)
    np.testing.assert_allclose(careful.score(PAIRS), unclipped.clip(0, 5), atol=1e-6)
    np.testing.assert_array_equal(
        careful_of(tiny_bert, Caution(0.0)).score(PAIRS), careful.fast.score(PAIRS)
    )
    assert (careful.score(PAIRS) <= careful.fast.score(PAIRS)).all()
    texts = ["the cat sleeps .", "the dog barks .", "x y"]
    matrix = careful.similarity(texts)
    for row, one in enumerate(texts):
        np.testing.assert_allclose(
            matrix[row], careful.score([(one, other) for other in texts]), atol=1e-5
        )
    ranked = careful.rank(texts[0], texts)
    assert [hit.score for hit in ranked] == sorted(matrix[0].tolist(), reverse=True)


def test_the_judge_is_asked_only_where_words_give_a_reason(tiny_bert: Path) -> None:
    careful = careful_of(tiny_bert, Caution(1.0, 0.0, words=1))
    always = careful_of(tiny_bert, Caution(1.0))
    pairs = [
        ("the cat sleeps .", "the dog barks now ."),
        ("the cat sleeps .", "the cat barks ."),
        ("a b c d e", "a b not x y z"),
        ("the soup is hot and x y", "it is cold z"),
    ]
    asked = [careful.caution.asks(pair) for pair in pairs]
    assert asked == [False, True, True, True]
    grades = np.where(asked, always.score(pairs), careful.fast.score(pairs))
    np.testing.assert_allclose(careful.score(pairs), grades, atol=1e-6)
    assert careful.contradiction(pairs[:1]).tolist() == [0.0]
    assert careful.score([]).shape == (0,)


def test_another_number_or_day_is_certain_and_not_asked_about(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful = careful_of(tiny_bert, Caution(0.5, 0.0, words=2))
    pairs = [("the cat has 3 dogs .", "the cat has 5 dogs ."), ("on monday .", "on sunday .")]
    monkeypatch.setattr(careful.judge, "score", pytest.fail)
    assert careful.contradiction(pairs).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(careful.score(pairs), careful.fast.score(pairs) / 2, atol=1e-6)


def test_its_vectors_are_those_of_the_fast_one(tiny_bert: Path) -> None:
    careful = careful_of(tiny_bert)
    assert as_embedder(careful) is careful.fast
    np.testing.assert_array_equal(careful.encode("a dog"), careful.fast.encode("a dog"))
    assert vectors_fingerprint(careful) == vectors_fingerprint(careful.fast)
    assert careful.fingerprint != careful.fast.fingerprint
    rows = careful.encode(["a", "b"])
    for ask in (careful.similarity, lambda x: careful.score_vectors(x, x)):
        with pytest.raises(TertiumError, match="reads both texts of a pair together"):
            ask(rows)


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_a_careful_scorer_comes_back(tiny_bert: Path, tmp_path: Path, engine: str) -> None:
    careful = careful_of(tiny_bert)
    careful.save(tmp_path / "careful")
    loaded = tertium.load(tmp_path / "careful", engine=engine)
    assert isinstance(loaded, CarefulScorer) and loaded.caution == careful.caution
    assert loaded.fingerprint == careful.fingerprint
    np.testing.assert_allclose(loaded.score(PAIRS), careful.score(PAIRS), atol=1e-4)
    assert loaded.fast.name.endswith("careful/fast")
    again = tmp_path / "again"
    loaded.save(again)
    np.testing.assert_allclose(
        tertium.load(again, engine="torch").score(PAIRS), careful.score(PAIRS), atol=1e-4
    )


def test_words_are_explained_as_the_judge_hears_them(tiny_bert: Path) -> None:
    careful = careful_of(tiny_bert, Caution(1.0))
    found = careful.explain("the cat sleeps .", "the dog barks .")
    assert found.score == pytest.approx(float(careful.score(PAIRS[:1])[0]), abs=1e-5)
    assert found.alignment is not None
    with pytest.raises(TertiumError, match="use occlusion"):
        careful.explain("the cat", "the dog", method="gradients")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fast": "../elsewhere"}, "neither a reserved name"),
        ({"fast": 3}, "neither a reserved name"),
        ({"judge": "gone"}, "is missing"),
        ({"judge": "./fast"}, "is not one of cross"),
        ({"caution": {"strong": 1}}, "needs strength and threshold"),
        ({"caution": None}, "needs strength and threshold"),
        ({"caution": {"strength": 7}}, "strength lies from 0 to 1"),
    ],
    ids=str,
)
def test_a_bad_folder_is_named(
    tiny_bert: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "careful"
    careful_of(tiny_bert).save(folder)
    manifest = json.loads((folder / "tertium.json").read_text())
    manifest["details"] |= change
    (folder / "tertium.json").write_text(json.dumps(manifest))
    with pytest.raises(TertiumError, match=message):
        models.load(folder)


def test_a_judge_must_judge_from_0_to_1(tiny_bert: Path) -> None:
    careful = careful_of(tiny_bert)
    careful.judge.members[0].model.labels = replace(OrderedLabels(0.0, 5.0))
    with pytest.raises(TertiumError, match="does not judge from 0 to 1"):
        CarefulScorer(careful.fast, careful.judge, Caution(0.5))


def test_names_lead_to_models_of_their_kind() -> None:
    for name, known in NAMES.items():
        if name != "base":
            manifest = models.names.read_manifest(known.folder())
            assert manifest is None or manifest.kind is known.kind
