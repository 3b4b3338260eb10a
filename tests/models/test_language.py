"""Texts that an English model cannot judge are counted, and one warning says so."""

import warnings
from collections.abc import Sequence

import pytest

import tertium
from tertium.models.language import is_english_vocabulary, looks_foreign
from tertium.models.tokens import ForeignTextWarning, TokenizationStats

FOREIGN = [
    "Un homme joue de la guitare.",
    "El gato duerme en la casa de mi abuela.",
    "Um homem está tocando violão.",
    "Der Hund liegt auf dem Sofa und ist nicht müde.",
    "Kot śpi na kanapie i nie chce się obudzić.",
    "Кошка спит.",
    "猫が眠っている。",
]
ENGLISH = [
    "A man plays the guitar.",
    "Rio de Janeiro",
    "El Niño and La Niña are phases of one climate pattern.",
    "Die hard fans waited in the rain.",
    "def main(argv): return 0",
    "12:30",
    "😀",
    "",
]


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages_are_noticed(text: str) -> None:
    assert looks_foreign(text)


@pytest.mark.parametrize("text", ENGLISH)
def test_english_names_and_codes_are_not(text: str) -> None:
    assert not looks_foreign(text)


def characters(texts: Sequence[str]) -> list[list[int]]:
    return [[ord(letter) for letter in text] for text in texts]


def test_a_vocabulary_for_all_languages_is_not_english() -> None:
    assert not is_english_vocabulary(characters)
    assert tertium.load().encoder.is_english()


def test_one_warning_counts_them_and_scores_stay() -> None:
    model = tertium.load()
    texts = [FOREIGN[0], FOREIGN[1], ENGLISH[0]]
    with pytest.warns(ForeignTextWarning, match="2 of the first 3 distinct texts"):
        vectors = model.encode([*texts, FOREIGN[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.encode(ENGLISH[:2])
        counted = TokenizationStats()
        assert (model.encode(texts, truncation=counted) == vectors[:3]).all()
    assert (counted.foreign, counted.looked) == (2, 3)
    with pytest.warns(ForeignTextWarning, match="2 of the first 2 distinct"):
        tertium.load("conditional").score([(FOREIGN[0], FOREIGN[1], "the instrument")])


def test_a_million_texts_cost_no_more_than_a_thousand() -> None:
    counted = TokenizationStats()
    for _ in range(3):
        counted.look(FOREIGN[:1] * 700, english=lambda: True)
    assert (counted.foreign, counted.looked) == (1000, 1000)
