import math

import pytest
from pydantic import ValidationError

from tertium.data import (
    KINDS,
    ConditionalPair,
    GradedPair,
    LabelledPair,
    LabelledText,
    NliPair,
    Pair,
    Row,
    Sentence,
    Triplet,
)

AB = {"sentence1": "A.", "sentence2": "B."}


@pytest.mark.parametrize(
    ("row_type", "columns"),
    [
        (Sentence, {"text": "A."}),
        (Pair, {"a": "A.", "b": "B."}),
        (Pair, {"text1": "A.", "text2": "B.", "similarity": "1"}),
        (GradedPair, {"sentence_a": "A.", "sentence_b": "B.", "relatedness_score": "4.5"}),
        (GradedPair, {"s1": "A.", "s2": "B.", "label": 3}),
        (ConditionalPair, {**AB, "condition": "colour", "label": "4"}),
        (NliPair, {"premise": "A.", "hypothesis": "B.", "gold_label": "Neutral"}),
        (Triplet, {"sent0": "A.", "sent1": "B.", "hard_neg": "C."}),
        (Triplet, {"anchor": "A.", "positive": "B.", "negative": "C."}),
        (LabelledText, {"text": "A.", "label": 1}),
        (LabelledPair, {**AB, "label": "paraphrase"}),
    ],
)
def test_usual_column_names_are_understood(row_type: type[Row], columns: dict[str, object]) -> None:
    assert row_type.missing(columns) == []
    assert row_type.model_validate({**columns, "unknown": "ignored"})


@pytest.mark.parametrize("row_type", KINDS.values())
def test_every_row_type_says_what_it_misses(row_type: type[Row]) -> None:
    required = [name for name, field in row_type.model_fields.items() if field.is_required()]
    assert row_type.missing([]) == required
    assert row_type.missing(required) == []


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u2003", None, 5])
def test_a_text_must_be_a_text_that_is_not_blank(text: object) -> None:
    with pytest.raises(ValidationError):
        Sentence.model_validate({"sentence": text})


@pytest.mark.parametrize("score", ["nan", "inf", -math.inf, "", "abc", None])
def test_a_grade_must_be_a_finite_number(score: object) -> None:
    with pytest.raises(ValidationError):
        GradedPair.model_validate({**AB, "score": score})


@pytest.mark.parametrize("score", ["", "  ", None])
def test_a_pair_of_the_users_own_may_lack_its_score(score: object) -> None:
    assert Pair.model_validate({**AB, "score": score}).score is None


@pytest.mark.parametrize("label", [-1, "-1", -1.0, "", None])
def test_a_hidden_label_is_none(label: object) -> None:
    row = ConditionalPair.model_validate(
        {**AB, "condition": "size", "label": label}, context=(1, 5)
    )
    assert row.label is None


def test_the_scale_is_checked_when_there_is_one() -> None:
    assert GradedPair.model_validate({**AB, "score": 90}).score == 90
    with pytest.raises(ValidationError, match="from 0 to 5"):
        GradedPair.model_validate({**AB, "score": 5.1}, context=(0, 5))


def test_an_unknown_nli_label_is_refused() -> None:
    with pytest.raises(ValidationError):
        NliPair.model_validate({**AB, "label": "-"})


def test_rows_do_not_change() -> None:
    row = Sentence(sentence="A.")
    with pytest.raises(ValidationError, match="frozen"):
        row.sentence = "B."  # type: ignore[misc]


def test_a_number_as_a_label_becomes_text() -> None:
    assert LabelledText.model_validate({"sentence": "A.", "label": 0}).label == "0"
