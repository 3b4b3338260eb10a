import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.evaluation.thresholds import (
    Counts,
    Ranking,
    average_precision,
    binomial_tail,
    clopper_pearson,
    fewest_pairs,
)

scores = st.lists(st.integers(0, 6), min_size=2, max_size=40)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    values = draw(scores)
    labels = draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    labels[0], labels[1] = True, False
    return np.array(labels), np.array(values, float)


@given(labelled())
def test_equal_to_scikit_learn(pairs: tuple[np.ndarray, np.ndarray]) -> None:
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    labels, values = pairs
    assert average_precision(labels, values) == pytest.approx(
        average_precision_score(labels, values)
    )
    assert Ranking(labels, values).auc()[0] == pytest.approx(roc_auc_score(labels, values))
    best = max(f1_score(labels, values >= value) for value in values)
    assert Ranking(labels, values).best_f1()[0] == pytest.approx(best)


@given(labelled(), st.randoms(use_true_random=False))
def test_order_does_not_matter(pairs: tuple[np.ndarray, np.ndarray], random: object) -> None:
    labels, values = pairs
    order = list(range(len(labels)))
    random.shuffle(order)  # type: ignore[attr-defined]
    for goal, wanted in (("f1", None), ("precision", 0.6), ("recall", 0.6)):
        found = [
            Ranking(labels[rows], values[rows]).threshold(goal, wanted=wanted, confidence=0.6)  # type: ignore[arg-type]
            for rows in (slice(None), order)
        ]
        assert found[0] == found[1]


@given(labelled(), st.integers(0, 2**16))
def test_a_bootstrap_sample_is_as_if_its_rows_were_written_out(
    pairs: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    labels, values = pairs
    counts = np.random.default_rng(seed).integers(0, 3, len(labels))
    counts[:2] += 1  # both kinds
    rows = np.repeat(np.arange(len(labels)), counts)
    whole, written = Ranking(labels, values), Ranking(labels[rows], values[rows])
    assert whole.average_precision(counts)[0] == pytest.approx(written.average_precision()[0])
    assert whole.auc(counts)[0] == pytest.approx(written.auc()[0])
    assert whole.best_f1(counts)[0] == pytest.approx(written.best_f1()[0])


def test_by_hand() -> None:
    labels = np.array([1, 1, 0, 1, 0, 0], bool)
    ranking = Ranking(labels, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert ranking.threshold("f1") == pytest.approx(0.55)  # 3 of 4 right, all found: F1 6/7
    assert ranking.counts(0.55) == Counts(4, 3, 3, 6)
    assert ranking.counts(0.55).f1 == pytest.approx(6 / 7)
    assert ranking.threshold("precision", wanted=0.95) is None  # six pairs promise nothing


def test_threshold_for_precision_by_hand() -> None:
    """50 right ones, then alternating: 22 are tried first, and more as long as the bound holds."""
    labels = np.array([True] * 50 + [False, True] * 20)
    ranking = Ranking(labels, np.arange(90, 0, -1))
    found = ranking.threshold("precision", wanted=0.9)
    assert found is not None
    counts = ranking.counts(found)
    assert binomial_tail(counts.right, counts.accepted, 0.9) <= 0.1
    assert counts.right > 0.9 * counts.accepted
    assert counts.accepted >= 45


def test_threshold_for_recall_keeps_what_it_promises() -> None:
    labels = np.array([True] * 100 + [False] * 100)
    ranking = Ranking(labels, np.arange(200, 0, -1))
    found = ranking.threshold("recall", wanted=0.9)
    assert found is not None
    recalled = ranking.counts(found).right
    assert binomial_tail(recalled, 100, 0.9) <= 0.1
    assert binomial_tail(recalled - 1, 100, 0.9) > 0.1  # the highest that does


def test_pairs_that_hang_together_count_less() -> None:
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    labels = np.repeat(generator.random(40) < 0.9, 10)  # all of a group, or none
    values = generator.random(400)
    apart = Ranking(labels, values).threshold("precision", wanted=0.82)
    together = Ranking(labels, values, groups).threshold("precision", wanted=0.82)
    assert apart is not None
    assert together is None or together > apart


@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.01, 0.99))
def test_binomial_tail_is_scipys(hits: int, trials: int, chance: float) -> None:
    from scipy.stats import binom

    expected = binom.sf(hits - 1, trials, chance) if hits <= trials else 0.0
    assert binomial_tail(hits, trials, chance) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("hits, trials", [(0, 10), (3, 10), (10, 10), (940, 1000)])
def test_clopper_pearson_is_scipys(hits: int, trials: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(hits, trials).proportion_ci(method="exact")
    assert clopper_pearson(hits, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_fewest_pairs() -> None:
    for wanted in (0.8, 0.9, 0.95, 0.99):
        least = fewest_pairs(wanted, 0.9)
        assert (
            binomial_tail(least, least, wanted) <= 0.1 < binomial_tail(least - 1, least - 1, wanted)
        )


def test_the_promise_is_kept_as_often_as_it_says() -> None:
    """Two normal distributions: the true precision of a threshold is known."""
    from scipy.stats import norm

    generator = np.random.default_rng(1)
    kept = asked = 0
    for _ in range(150):
        labels = generator.random(400) < 0.4
        values = generator.normal(size=400) + 2.5 * labels
        found = Ranking(labels, values).threshold("precision", wanted=0.9, confidence=0.9)
        asked += 1
        if found is not None:
            right, wrong = 0.4 * norm.sf(found - 2.5), 0.6 * norm.sf(found)
            kept += right / (right + wrong) >= 0.9
        else:
            kept += 1  # nothing was promised
    assert kept / asked >= 0.9
