import json
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.errors import MissingExtraError, TertiumError
from tertium.models import Encoder
from tertium.models.surgery import join_towers
from tertium.models.tokens import UnknownTextWarning
from tests.fakes import tiny_model

PAIR = ("the cat sleeps , bx .", "a dog barks")


@pytest.fixture(params=["bert", "roberta"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    return loaded(request.getfixturevalue(f"tiny_{request.param}"))


def loaded(folder: Path) -> Encoder:
    encoder = tertium.load(folder, engine="torch")
    assert isinstance(encoder, Encoder)
    return encoder


def test_a_pair(encoder: Encoder) -> None:
    found = encoder.explain(*PAIR, method="gradients")
    words = [[word.text for word in own] for own in found.words]
    assert words == [["the", "cat", "sleeps", ",", "bx", "."], ["a", "dog", "barks"]]
    assert found.score == pytest.approx(float(encoder.score([PAIR])[0]), abs=1e-6)
    alignment = np.array(found.alignment)
    assert alignment.shape == (6, 3) and (abs(alignment) <= 1).all()
    assert found.gradients is not None and found.gradients.error < 0.02
    for values, base in zip(found.gradients.contributions, found.gradients.baselines, strict=True):
        assert sum(values) + base == pytest.approx(found.score, abs=0.02)
    assert encoder.explain(*PAIR, method="gradients") == found


def test_what_a_word_contributes_is_what_the_score_loses(encoder: Encoder) -> None:
    found = encoder.explain(*PAIR)
    for at, left in enumerate(["cat sleeps , bx .", "the sleeps , bx .", "the cat , bx ."]):
        without = float(encoder.score([(left, PAIR[1])])[0])
        assert found.occlusion[0][at] == pytest.approx(found.score - without, abs=1e-6)


def test_a_single_word_makes_the_whole_change(encoder: Encoder) -> None:
    found = encoder.explain("cat", "dog")
    without = encoder.score([("", "dog"), ("cat", "")])
    for text in (0, 1):
        left = found.unclipped - found.occlusion[text][0]
        assert left == pytest.approx(float(without[text]), abs=1e-6)


def test_alignment_of_the_same_text_is_highest_on_the_diagonal(encoder: Encoder) -> None:
    found = encoder.explain("the cat sleeps", "the cat sleeps")
    alignment = np.array(found.alignment)
    assert alignment.diagonal() == pytest.approx(np.ones(3), abs=1e-5)
    assert (alignment.argmax(axis=1) == np.arange(3)).all()


def test_pieces_of_a_word_count_together(tiny_bert: Path) -> None:
    encoder = loaded(tiny_bert)
    # To this tokenizer a word with a hyphen is three tokens.
    found = encoder.explain("a-b c", "d", method="gradients")
    assert [word.text for word in found.words[0]] == ["a-b", "c"]
    assert np.shape(found.alignment) == (2, 1) and found.gradients is not None
    assert found.gradients.error < 0.02


def test_a_prompt_is_no_word(encoder: Encoder) -> None:
    encoder.model.prompts = {"ask": "the dog : "}
    encoder.model.default_prompt_name = "ask"
    found = encoder.explain("the cat", "a dog", method="gradients")
    assert len(found.words[0]) == 2 and found.gradients is not None
    assert found.gradients.error < 0.02
    assert sum(found.gradients.contributions[0]) == pytest.approx(
        found.score - found.gradients.baselines[0], abs=0.01
    )


def test_a_twin_has_two_tables(tiny_bert: Path, tmp_path: Path) -> None:
    other = loaded(tiny_model(tmp_path / "other", "bert"))
    with_noise = other.backbone.get_input_embeddings().weight.data
    with_noise += 0.1
    twin = join_towers(loaded(tiny_bert), other)
    found = twin.explain("the cat sleeps", "a dog", method="gradients")
    assert found.gradients is not None and found.gradients.error < 0.02


def test_more_steps_until_it_is_exact(encoder: Encoder) -> None:
    rough = encoder.explain(*PAIR, method="gradients", steps=2).gradients
    fine = encoder.explain(*PAIR, method="gradients").gradients
    assert rough is not None and fine is not None
    assert rough.steps == 2 and fine.steps >= 32 and fine.error < 0.01


def test_training_mode_makes_no_difference(encoder: Encoder) -> None:
    found = encoder.explain(*PAIR, method="gradients")
    encoder.model.train()
    assert encoder.explain(*PAIR, method="gradients") == found
    assert encoder.model.training


def test_it_is_plain_json(encoder: Encoder) -> None:
    document = encoder.explain(*PAIR, method="gradients", by=1e-4).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    first = document["texts"][0]["words"][1]
    assert first["word"] == "cat" and PAIR[0][first["start"] : first["end"]] == "cat"
    removed = document["smallest_change"]["removed"]
    assert len(removed) == 1 and removed[0]["word"] in PAIR[removed[0]["text"]]


def test_only_occlusion_where_torch_does_not_run(encoder: Encoder) -> None:
    class Constant:
        name = "onnx"

        def run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
            ids = inputs["input_ids"].astype(np.float32)
            return np.repeat(ids.sum(axis=1, keepdims=True), 32, axis=1) + np.arange(32)

    encoder.engine = Constant()
    found = encoder.explain(*PAIR)
    assert found.alignment is None and "engine torch" in found.notes[0]
    assert any(value for values in found.occlusion for value in values)
    with pytest.raises(TertiumError, match=r"runs on onnx.*use the engine torch"):
        encoder.explain(*PAIR, method="gradients")


def test_without_captum(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"tertium\[explain\]"):
        encoder.explain(*PAIR, method="gradients")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ocluson"}, "Did you mean 'occlusion'"),
        ({"condition": "the colour"}, "does not take conditions"),
        ({"by": 0.0}, "more than 0"),
        ({"steps": 1, "method": "gradients"}, "must be at least 2"),
        ({"most": -1}, "0 or more words"),
    ],
)
def test_what_makes_no_sense(encoder: Encoder, options: dict[str, str], message: str) -> None:
    with pytest.raises(TertiumError, match=message):
        encoder.explain(*PAIR, **options)  # type: ignore[arg-type]


# absurd input


@pytest.mark.parametrize("texts", [("", ""), (" ", "\n"), ("\0", "\x07")])
def test_nothing_to_explain(encoder: Encoder, texts: tuple[str, str]) -> None:
    with pytest.raises(TertiumError, match="Neither text contains a word"):
        encoder.explain(*texts)


def test_one_empty_text(encoder: Encoder) -> None:
    found = encoder.explain("the cat", "", method="gradients")
    assert found.words[1] == () and found.alignment == ((), ())
    assert found.gradients is not None and found.gradients.contributions[1] == ()


def test_only_pictures(tiny_bert: Path) -> None:
    with pytest.warns(UnknownTextWarning) as seen:
        found = loaded(tiny_bert).explain("🎸👍🏽", "🎹", method="gradients")
    assert [word.text for word in found.words[0]] == ["🎸", "👍🏽"] and len(seen) == 1


def test_six_hundred_words(tiny_bert: Path) -> None:
    text = " ".join(["the cat"] * 300)
    found = loaded(tiny_bert).explain(text, "a dog", method="gradients", most=2)
    assert len(found.notes) == 1 and "scored by its passages" in found.notes[0]
    assert len(found.occlusion[0]) == 600 and found.gradients is not None
    assert found.gradients.error < 0.02 and not any(found.gradients.contributions[0][62:])


def test_the_same_text_twice(encoder: Encoder) -> None:
    found = encoder.explain("the cat sleeps", "the cat sleeps", method="gradients")
    assert found.score == pytest.approx(1.0, abs=1e-5) and found.gradients is not None
    assert found.gradients.error < 0.02


def test_characters_that_are_no_text(encoder: Encoder) -> None:
    found = encoder.explain("the\0 cat \ud800", "a dog")
    json.dumps(found.to_json()).encode()
    assert [word.text for word in found.words[0]] == ["the", "cat", "\ufffd"]
