import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import text as texts

from tertium.explain.words import Word, split_words, without, word_of

INVISIBLE = ("Cc", "Cf", "Cs")


@given(texts())
def test_words_stand_where_they_say(text: str) -> None:
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    assert all(one.end <= two.start for one, two in pairwise(words))
    covered = {at for word in words for at in range(word.start, word.end)}
    for at, character in enumerate(text):
        blank = character.isspace() or unicodedata.category(character) in INVISIBLE
        assert at in covered or blank


@given(texts())
def test_without_all_words_nothing_can_be_seen(text: str) -> None:
    words = split_words(text)
    assert split_words(without(text, words, set(range(len(words))))) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.5, or 1,000 in all.", ["It's", "3.5", ",", "or", "1,000", "in", "all", "."]),
        ("a well-known -- b", ["a", "well-known", "-", "-", "b"]),
        ("他在弹吉他。", ["他", "在", "弹", "吉", "他", "。"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("👩‍👧 ok 👍🏽", ["👩‍👧", "ok", "👍🏽"]),
        ("a\0b\x07 \u200b", ["a", "b"]),
        ("cafe\u0301", ["cafe\u0301"]),
    ],
)
def test_what_a_word_is(text: str, words: list[str]) -> None:
    assert [word.text for word in split_words(text)] == words


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("A cat sleeps.", {0}, "cat sleeps."),
        ("A cat sleeps.", {2, 3}, "A cat"),
        ("A cat sleeps.", {3}, "A cat sleeps"),
        ("A cat sleeps.", set(), "A cat sleeps."),
        ("A  b\tc d", {2}, "A  b\td"),  # space elsewhere stays
        ("«Oui», dit-il", {0, 2}, "Oui, dit-il"),
        ("", set(), ""),
    ],
)
def test_without(text: str, gone: set[int], left: str) -> None:
    assert without(text, split_words(text), gone) == left


def test_a_token_belongs_to_the_first_word_that_it_touches() -> None:
    words = [Word("ab", 0, 2), Word("cd", 3, 5)]
    pieces = [(0, 0), (0, 1), (1, 2), (2, 5), (2, 3), (4, 6), (5, 6), (1, 4)]
    assert [word_of(piece, words) for piece in pieces] == [None, 0, 0, 1, None, 1, None, 0]
    assert word_of((0, 1), []) is None
