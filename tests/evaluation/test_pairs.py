import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.data.labels import OrderedLabels
from tertium.data.overlap import sentence_key
from tertium.data.shapes import Example
from tertium.errors import TertiumError
from tertium.evaluation.pairs import (
    Aim,
    LabelledPairs,
    components,
    decide,
    figures,
    folds_of,
    resampled,
)

sentences = st.integers(0, 25).map(lambda number: f"sentence {number}")
rows = st.lists(st.tuples(sentences, sentences, st.sampled_from([0.0, 1.0])), min_size=1)
YES_NO = OrderedLabels(0.0, 1.0)


def own(
    found: list[tuple[str, str, float]], scale: OrderedLabels = YES_NO, *, binary: bool = True
) -> LabelledPairs:
    examples = [Example(at, (a, b), label) for at, (a, b, label) in enumerate(found, 2)]
    return LabelledPairs.of(examples, scale, binary=binary, file="mine.tsv")


def drawn(pairs: int, *, seed: int = 0, share: float = 0.4) -> tuple[LabelledPairs, np.ndarray]:
    """Pairs without shared sentences, and scores that are higher for positive ones."""
    generator = np.random.default_rng(seed)
    labels = (generator.random(pairs) < share).astype(float)
    found = own([(f"a {at:05}", f"b {at:05}", label) for at, label in enumerate(labels)])
    return found, generator.normal(size=pairs) + 2.5 * found.labels


@given(rows)
def test_no_sentence_is_on_both_sides(found: list[tuple[str, str, float]]) -> None:
    pairs = own(found)
    if not len(pairs):
        return
    folds = folds_of(pairs)
    seen: dict[str, int] = {}
    for item, fold in zip(pairs.items, folds, strict=True):
        for text in item:
            assert seen.setdefault(sentence_key(text), fold) == fold


@given(rows, st.randoms(use_true_random=False))
def test_order_does_not_matter(found: list[tuple[str, str, float]], random: object) -> None:
    shuffled = [(b, a, label) for a, b, label in found]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = own(found), own(shuffled)
    assert [set(item) for item in one.items] == [set(item) for item in two.items]
    assert one.labels.tolist() == two.labels.tolist()
    if len(one):
        assert folds_of(one).tolist() == folds_of(two).tolist()


def test_components_through_others() -> None:
    found = components([("a", "b"), ("c", "d"), ("B!", "e"), ("E", "c"), ("x", "y"), ("?", "!")])
    assert found.tolist() == [0, 0, 0, 0, 1, 2]


def test_everything_in_one_component_is_not_split() -> None:
    pairs = own([("one", f"other {at}", float(at % 2)) for at in range(30)])
    assert not folds_of(pairs).any()


def test_folds_are_of_about_equal_size() -> None:
    pairs, _ = drawn(203)
    assert np.ptp(np.bincount(folds_of(pairs))) <= 1


def test_repeated_pairs_count_once_and_contradictions_by_majority() -> None:
    found = own(
        [("a", "b", 1.0), ("B.", "A", 1.0), ("b", "a", 0.0), ("c", "d", 1.0), ("c", "d", 0.0)]
    )
    assert found.items == (("B.", "A"),)
    assert found.labels.tolist() == [1.0]
    assert "contradictory" in found.notes[1] and "line 3" in found.notes[1]
    grades = own([("a", "b", 1.0), ("a", "b", 4.0)], OrderedLabels(0.0, 5.0), binary=False)
    assert grades.labels.tolist() == [2.5]


def test_what_counts_as_yes() -> None:
    words = OrderedLabels.named(["contradiction", "neutral", "entailment"])
    found = own([("a", "b", 0.0), ("c", "d", 1.0), ("e", "f", 2.0)], words, binary=False)
    assert [mask.tolist() for mask, _ in (found.positive(None), found.positive("neutral"))] == [  # type: ignore[misc]
        [False, False, True],
        [False, True, True],
    ]
    grades = own([("a", "b", 0.0), ("c", "d", 4.0)], OrderedLabels(0.0, 5.0), binary=False)
    assert grades.positive(None) == (None, None)
    assert grades.positive("4")[0].tolist() == [False, True]  # type: ignore[index]
    with pytest.raises(TertiumError, match="lowest grade"):
        grades.positive("many")
    with pytest.raises(TertiumError, match="not between"):
        grades.positive("9")


@pytest.mark.parametrize(
    "found, message",
    [
        ([("a", "b", 1.0)] * 3, "has 1 pair with a label .*and at least 10"),
        ([(f"a{i}", f"b{i}", 1.0) for i in range(20)], "all 20 pairs have the same label"),
        ([(f"a{i}", f"b{i}", float(i < 2)) for i in range(20)], "only 2 of 20 pairs count as yes"),
        ([(f"a{i}", f"b{i}", float(i > 1)) for i in range(20)], "only 2 of 20 pairs count as no"),
    ],
)
def test_too_few(found: list[tuple[str, str, float]], message: str) -> None:
    pairs = own(found)
    with pytest.raises(TertiumError, match=message):
        pairs.check(pairs.positive(None)[0])  # type: ignore[index]


def test_a_promise_that_cannot_be_kept_says_what_can() -> None:
    pairs, scores = drawn(60)
    yes = pairs.labels > 0.5
    with pytest.raises(TertiumError, match="are too few to promise precision"):
        decide(pairs, scores, yes, folds_of(pairs), Aim("precision", 0.99))
    pairs, scores = drawn(400)
    useless = np.random.default_rng(1).normal(size=400)
    with pytest.raises(TertiumError, match=r"the most that can be promised is 0\.\d"):
        decide(pairs, useless, pairs.labels > 0.5, folds_of(pairs), Aim("precision", 0.95))


def test_held_out_figures_are_of_pairs_that_were_not_fitted_on() -> None:
    pairs, scores = drawn(400)
    yes = pairs.labels > 0.5
    rule, held = decide(pairs, scores, yes, folds_of(pairs), Aim("precision", 0.9))
    assert rule.threshold is not None and rule.interval is not None
    assert rule.interval[0] <= rule.threshold <= rule.interval[1]
    assert held["decision"]["precision"]["value"] >= 90
    assert held["probability"]["log_loss"]["platt"] < held["probability"]["constant"]
    assert rule.probability is not None
    assert rule.probability([scores.min(), scores.max()]) == pytest.approx([0, 1], abs=0.1)


def test_intervals_cover() -> None:
    """The true AUC of two normal distributions is known; so is the correlation."""
    from scipy.stats import norm

    true = 100 * norm.cdf(2.5 / np.sqrt(2))
    hits = 0
    for seed in range(60):
        pairs, scores = drawn(150, seed=seed)
        counts = resampled(pairs, resamples=200, seed=seed)
        low, high = figures(pairs, scores, pairs.labels > 0.5, counts)["auc"]["interval"]
        hits += low <= true <= high
    assert hits >= 51  # 57 are expected; of a fair coin of 0.95, fewer than 51 are one in 400


def test_whole_components_are_resampled() -> None:
    pairs = own([("a", "b", 1.0), ("b", "c", 0.0), ("d", "e", 1.0)])
    counts = resampled(pairs, resamples=50, seed=0)
    assert counts is not None
    together = [at for at, group in enumerate(pairs.groups) if group == pairs.groups[0]]
    assert len(together) == 2
    assert (counts[:, together[0]] == counts[:, together[1]]).all()
    assert (counts.sum(axis=1) != 3).any()
