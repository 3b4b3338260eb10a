import pytest
from hypothesis import given
from hypothesis.strategies import text as texts

from tertium.encoders.explanation.words import Word, join_pieces, split_words, without


@given(texts())
def test_words_stand_where_they_say(text: str) -> None:
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    covered = {at for word in words for at in range(word.start, word.end)}
    assert all(text[at].isspace() for at in range(len(text)) if at not in covered)


@given(texts())
def test_without_all_words_nothing_is_left(text: str) -> None:
    words = split_words(text)
    assert without(text, words, set(range(len(words)))).strip() == ""


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("A cat sleeps.", {0}, "cat sleeps."),
        ("A cat sleeps.", {2, 3}, "A cat"),
        ("A cat sleeps.", set(), "A cat sleeps."),
        ("«Oui», dit-il", {0, 2}, "Oui, dit-il"),
        ("", set(), ""),
    ],
)
def test_without(text: str, gone: set[int], left: str) -> None:
    assert without(text, split_words(text), gone) == left


def test_pieces_are_added_up_for_their_word() -> None:
    words = [Word("ab", 0, 2), Word("cd", 3, 5)]
    offsets = [(0, 0), (0, 1), (1, 2), (3, 5), (0, 0)]
    assert join_pieces([9.0, 1.0, 2.0, 4.0, 9.0], offsets, words) == [3.0, 4.0]
    assert join_pieces([], [], words) == [0.0, 0.0]
    assert join_pieces([1.0], [(0, 1)], []) == []
