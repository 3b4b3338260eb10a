import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from tertium.encoders.explanation.occlusion import occlude, smallest_change

VALUE = {"a": 1.0, "b": -2.0, "c": 0.5, "d": 0.0}


def additive(items: list[tuple[str, ...]]) -> np.ndarray:
    """Every word has a value, whatever stands beside it."""
    return np.array(
        [sum(VALUE[word] for text in item for word in text.split()) for item in items], np.float32
    )


sentences = lists(sampled_from("abcd"), max_size=6).map(" ".join)


@given(sentences, sentences)
def test_contributions_of_an_additive_score_are_its_values(one: str, two: str) -> None:
    found = occlude(additive, (one, two))
    for text, values in zip((one, two), found.contributions, strict=True):
        assert values == pytest.approx([VALUE[word] for word in text.split()], abs=1e-6)
    assert found.score == pytest.approx(sum(map(sum, found.contributions)), abs=1e-5)


def test_a_condition_keeps_its_words() -> None:
    found = occlude(additive, ("a b", "c", "d d"))
    assert [len(words) for words in found.words] == [2, 1]


def test_everything_is_scored_in_one_call() -> None:
    calls: list[int] = []

    def counted(items: list[tuple[str, ...]]) -> np.ndarray:
        calls.append(len(items))
        return additive(items)

    occlude(counted, ("a b c", "d"))
    assert calls == [5]


def test_the_smallest_change_is_the_shorter_way() -> None:
    found = smallest_change(additive, ("a a a b", "d"), by=2.0)
    assert found.removed == ((0, 3),) and found.reached and found.score == 3.0
    down = smallest_change(additive, ("a a", "d"), by=2.0)
    assert set(down.removed) == {(0, 0), (0, 1)} and down.reached and down.score == 0.0


def test_what_cannot_be_reached_says_so() -> None:
    found = smallest_change(additive, ("c", "d"), by=1.0)
    assert not found.reached and found.removed == ((0, 0),)
    assert smallest_change(additive, ("", ""), by=1.0).removed == ()
    assert len(smallest_change(additive, ("a " * 9, "d"), by=9.0, most=3).removed) == 3
