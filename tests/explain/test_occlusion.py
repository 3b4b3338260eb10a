from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from tertium.explain.occlusion import SmallestChange, occlude, smallest_change

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


def change(*texts: str, by: float, **options: Any) -> SmallestChange:
    return smallest_change(additive, texts, occlude(additive, texts), by=by, **options)


def test_the_smallest_change_goes_either_way() -> None:
    up = change("a a a b", "d", by=2.0)
    assert up.removed == ((0, 3),) and up.reached and up.score == 3.0
    down = change("a a", "d", by=2.0)
    assert down.removed == ((0, 0), (0, 1)) and down.reached and down.score == 0.0


def test_two_words_that_matter_only_together_are_found() -> None:
    def both(items: list[tuple[str, ...]]) -> np.ndarray:
        """One is enough for a good score; words that are there for nothing move it more."""
        return np.array([("c" in a or "d" in b) + 0.1 * a.count("a") for a, b in items], np.float32)

    texts = ("a a a a c", "b d")
    found = smallest_change(both, texts, occlude(both, texts), by=0.9)
    assert found.removed == ((0, 4), (1, 1)) and found.reached


def test_what_cannot_be_reached_says_so() -> None:
    found = change("c", "d", by=1.0)
    assert not found.reached and found.removed == ((0, 0),)
    assert change("", "", by=1.0).removed == ()
    assert len(change("a " * 9, "d", by=9.0, most=3).removed) == 3
    assert change("a", "a", by=1.0, most=0) == SmallestChange((), 2.0, 1.0, reached=False)


def test_what_lies_beyond_the_scale_does_not_count() -> None:
    found = change("a a a", "d", by=1.0, scale=(0.0, 2.0))  # 3, which is shown as 2
    assert found.removed == ((0, 0), (0, 1)) and found.score == 1.0 and found.reached


def test_long_texts_take_few_calls() -> None:
    calls: list[int] = []

    def counted(items: list[tuple[str, ...]]) -> np.ndarray:
        calls.append(len(items))
        return additive(items)

    texts = ("c " * 300, "d " * 300)
    smallest_change(counted, texts, occlude(counted, texts), by=100.0)
    assert calls[0] == 601 and len(calls) == 6 and max(calls[1:]) <= 300
