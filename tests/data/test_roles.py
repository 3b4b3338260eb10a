from collections import Counter

import pytest

from tertium.data.contradictions import contradictions
from tertium.data.contrasts import items
from tertium.data.contrasts.roles import reordered, role_swaps
from tertium.data.differences import differences, may_contradict


def words(text: str) -> Counter[str]:
    return Counter(text.lower().rstrip(".").split())


def test_parties_change_places_and_nothing_else_changes() -> None:
    made = role_swaps()
    assert len(made) > 900
    for each in made:
        assert words(each.text) == words(each.swapped) and each.text != each.swapped
        assert words(each.same) == words(each.swapped_same) and each.same != each.swapped_same
        assert "role swap" in differences(each.text, each.swapped)
        assert len({each.text, each.same, each.swapped, each.swapped_same}) == 4


def test_a_fifth_of_the_verbs_is_kept_apart_whatever_the_seed() -> None:
    shares = [
        sum(not each.learned for each in role_swaps(seed=seed)) / len(role_swaps(seed=seed))
        for seed in (0, 1)
    ]
    assert shares[0] == shares[1] and 0.1 < shares[0] < 0.3


def test_words_change_places_and_the_meaning_stays() -> None:
    made = list(reordered())
    assert len(made) > 300
    for text, other in made:
        assert words(text) == words(other)


def test_what_is_learned_has_both_and_no_contrast() -> None:
    rows = contradictions(nli=[], negated=[], graded=[], texts=[])
    labels = Counter(row.score for row in rows if row.subset == "role swaps")
    assert labels[1.0] > 1500 and labels[0.0] > 1000
    known = {text for item in items() for text in (item.text, item.nearer, item.farther)}
    swaps = {text for each in role_swaps(parties=6, seed=1) for text in (each.text, each.swapped)}
    assert not known & swaps


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("A dog is chasing a man down the road .", "A man is chasing a dog down the road ."),
        ("The girl looks at her horse .", "Her horse looks at the girl ."),
    ],
)
def test_people_in_real_sentences_change_places(text: str, swapped: str) -> None:
    rows = contradictions(nli=[(text, "It rains .", "neutral")], negated=[], graded=[], texts=[])
    found = {frozenset((row.sentence1, row.sentence2)): row.score for row in rows}
    assert found[frozenset((text, swapped))] == 1


def test_those_who_meet_do_not_change_places() -> None:
    text = "A man is talking to a woman ."
    rows = contradictions(nli=[(text, "It rains .", "neutral")], negated=[], graded=[], texts=[])
    assert not any(row.subset == "roles in context" for row in rows)


def test_the_judge_is_asked_about_another_order() -> None:
    assert may_contradict("Ann saw Bob.", "Bob saw Ann.", words=0)
    assert not may_contradict("Ann saw Bob.", "ann saw bob", words=3)
