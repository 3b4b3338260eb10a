"""A validated, frozen type per kind of row, with common names of columns."""

import math
from collections.abc import Collection
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

__all__ = [
    "LABEL_NAMES",
    "RATER_NAMES",
    "ConditionalPair",
    "GradedPair",
    "GradedTriple",
    "LabelledPair",
    "LabelledText",
    "NegatedSentence",
    "NewLabel",
    "NliPair",
    "Pair",
    "PositivePair",
    "Question",
    "Row",
    "RowT",
    "Sentence",
    "SentencePair",
    "Triplet",
]


def _not_blank(text: str) -> str:
    if not text or text.isspace():
        raise PydanticCustomError("blank", "write some text, or remove the row")
    return text


def _within_scale(score: float, info: ValidationInfo) -> float:
    """Check against the data set's scale, which is the validation context."""
    if not math.isfinite(score):
        raise PydanticCustomError("finite", "write a finite number, or remove the row")
    if info.context is not None:
        low, high = info.context
        if not low <= score <= high:
            raise PydanticCustomError(
                "scale", "write a number from {low} to {high}", {"low": low, "high": high}
            )
    return score


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _hidden_is_none(value: Any) -> Any:
    """C-STS uses -1 for a hidden, withheld or invalid label."""
    return None if str(value).strip() in {"", "-1", "-1.0"} else value


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _names(*names: str) -> Any:
    return Field(validation_alias=AliasChoices(*names))


Text = Annotated[str, AfterValidator(_not_blank)]
Score = Annotated[float, AfterValidator(_within_scale)]
Label = Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(_not_blank)]
NliLabel = Annotated[Literal["entailment", "neutral", "contradiction"], BeforeValidator(_lower)]

_SENTENCE = ("sentence", "text", "sentences", "texts")
_FIRST = (
    *("sentence1", "sentence_1", "sentence_a", "text1", "text_1", "text_a"),
    *("s1", "a", "premise", "question1", "sent1", "question_1", "string1", "phrase1", "first"),
    *("sentencea", "texta", "sent_1", "sent_a", "string_1", "title1", "title_1"),
)
_SECOND = (
    *("sentence2", "sentence_2", "sentence_b", "text2", "text_2", "text_b"),
    *("s2", "b", "hypothesis", "question2", "sent2", "question_2", "string2", "phrase2", "second"),
    *("sentenceb", "textb", "sent_2", "sent_b", "string_2", "title2", "title_2"),
)
_SCORE = (
    *("score", "similarity", "gold", "similarity_score", "relatedness_score", "rating", "label"),
    *("grade", "gold_score", "human_score", "mean_score", "avg_score", "sim", "relatedness"),
)
_ANCHOR = ("anchor", "query", "sent0", "question")
_POSITIVE = ("positive", "sent1", "pos", "answer", "passage", "document")
LABEL_NAMES = (
    *_SCORE,
    *("class", "category", "gold_label", "entailment_label", "entailment_judgment", "relation"),
    *("is_duplicate", "duplicate", "duplicates", "dup", "is_paraphrase", "paraphrase", "quality"),
    *("match", "is_match", "same", "equivalent", "judgment", "judgement", "annotation", "y"),
)  # names of a pair's label: a grade, 0 or 1, or a word
RATER_NAMES = (
    *("rater", "rater_id", "annotator", "annotator_id", "worker", "worker_id", "workerid"),
    *("judge", "judge_id", "coder", "coder_id"),
)  # names of the rater, if a row is one rating


class Row(BaseModel):
    """Base of all rows: immutable, and ignoring unknown columns."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @classmethod
    def names(cls, field: str) -> tuple[str, ...]:
        """Possible column names of ``field``, the preferred one first.

        >>> LabelledText.names("label")
        ('label', 'class', 'category')
        """
        alias = cls.model_fields[field].validation_alias
        return tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (field,)

    @classmethod
    def missing(cls, columns: Collection[str]) -> list[str]:
        """Required fields without a column in ``columns``.

        >>> GradedPair.missing(["a", "b", "colour"])
        ['score']
        """
        return [
            name
            for name, field in cls.model_fields.items()
            if field.is_required() and not any(known in columns for known in cls.names(name))
        ]


RowT = TypeVar("RowT", bound=Row)


class Sentence(Row):
    """One text."""

    sentence: Annotated[Text, _names(*_SENTENCE)]


class SentencePair(Row):
    """Two texts, whatever else the file contains."""

    sentence1: Annotated[Text, _names(*_FIRST)]
    sentence2: Annotated[Text, _names(*_SECOND)]


class Pair(SentencePair):
    """The user's own pair, with an optional score."""

    score: Annotated[Score | None, BeforeValidator(_blank_is_none), _names(*_SCORE)] = None


class GradedPair(SentencePair):
    """Two texts and their similarity as graded by people; ``subset`` is the part of the set."""

    score: Annotated[Score, _names(*_SCORE)]
    subset: Annotated[str, _names("subset", "genre")] = ""


class ConditionalPair(SentencePair):
    """Two texts, a condition to compare them under, and the grade; None if it is hidden."""

    condition: Annotated[Text, _names("condition", "aspect", "respect")]
    label: Annotated[
        Score | None,
        BeforeValidator(_hidden_is_none),
        _names("label", *(name for name in _SCORE if name != "label")),
    ] = None


class GradedTriple(SentencePair):
    """Two texts, a condition to compare them under, and a required grade."""

    condition: Annotated[Text, _names("condition", "aspect", "respect")]
    score: Annotated[Score, _names(*_SCORE)]


class Question(SentencePair):
    """Two texts to compare under a condition, which may be blank."""

    condition: Annotated[str, _names("condition", "aspect", "respect")]


class NewLabel(Row):
    """Another label for a row of C-STS, identified by its position; None if it has no valid one."""

    uid: int
    label: Annotated[
        Score | None, BeforeValidator(_hidden_is_none), _names("label", "reannotated_label")
    ]


class NliPair(SentencePair):
    """Premise, hypothesis and their relation."""

    label: Annotated[NliLabel, _names("label", "gold_label")]
    source: str = ""


class NegatedSentence(Sentence):
    """A text, and its negation or opposite."""

    negated: Annotated[Text, _names("negated", "negation")]


class LabelledPair(SentencePair):
    """Two texts and their class."""

    label: Annotated[Label, _names("label", "class", "category")]


class LabelledText(Sentence):
    """One text and its class."""

    label: Annotated[Label, _names("label", "class", "category")]


class Triplet(Row):
    """A text, one that means the same, and one that only looks similar."""

    anchor: Annotated[Text, _names(*_ANCHOR)]
    positive: Annotated[Text, _names(*_POSITIVE)]
    hard_negative: Annotated[Text, _names("hard_negative", "negative", "hard_neg", "sent2", "neg")]


class PositivePair(Row):
    """A text and one that means the same, or answers it."""

    anchor: Annotated[Text, _names(*_ANCHOR)]
    positive: Annotated[Text, _names(*_POSITIVE)]
