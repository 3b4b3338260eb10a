import math
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tertium.evaluation.metrics import (
    bootstrap_accuracy,
    bootstrap_counts,
    bootstrap_spearman,
    pearson,
    percentile_interval,
    spearman,
    two_sided_p,
)

Measure = Callable[..., float]

# Few distinct values, so that ties are the rule.
TIED = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    gold, predicted = np.array(pairs, dtype=float).T
    return gold, predicted


def expected_spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    if len(set(gold)) == 1 or len(set(predicted)) == 1:
        return math.nan
    return float(stats.spearmanr(gold, predicted).statistic)


@given(TIED)
def test_correlations_equal_scipy_with_ties(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = columns(pairs)
    expected = expected_spearman(gold, predicted)
    assert spearman(gold, predicted) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    if not math.isnan(expected):
        linear = np.corrcoef(gold, predicted)[0, 1]
        assert pearson(gold, predicted) == pytest.approx(linear, abs=1e-12)
        ranks = stats.rankdata(gold), stats.rankdata(predicted)
        assert spearman(gold, predicted) == pytest.approx(pearson(*ranks), abs=1e-12)


@pytest.mark.parametrize("measure", [spearman, pearson])
@pytest.mark.parametrize(
    "columns", [([1, 1, 1], [1, 2, 3]), ([1, 2], [0, 0]), ([1], [2]), ([], [])]
)
def test_a_constant_side_is_undefined(measure: Measure, columns: tuple[list[int], ...]) -> None:
    assert math.isnan(measure(*columns))


@pytest.mark.parametrize("measure", [spearman, pearson])
def test_columns_must_have_one_length(measure: Measure) -> None:
    with pytest.raises(ValueError, match=r"got \(2,\), \(3,\)"):
        measure([1, 2], [1, 2, 3])


@given(TIED, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    pairs: list[tuple[int, int]], random: Random
) -> None:
    shuffled = random.sample(pairs, len(pairs))
    for measure in (spearman, pearson):
        there, again = measure(*columns(pairs)), measure(*columns(shuffled))
        assert there == pytest.approx(again, abs=1e-12, nan_ok=True)


@given(TIED, st.integers(0, 2**31))
def test_bootstrap_equals_explicit_resampling(pairs: list[tuple[int, int]], seed: int) -> None:
    gold, predicted = columns(pairs)
    counts = bootstrap_counts(len(gold), resamples=7, seed=seed)
    assert (counts.sum(axis=1) == len(gold)).all()
    for row, value in zip(counts, bootstrap_spearman(gold, predicted, counts), strict=True):
        drawn = np.repeat(np.arange(len(gold)), row)
        expected = expected_spearman(gold[drawn], predicted[drawn])
        assert value == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_blocks_of_samples_do_not_change_them(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, predicted = np.random.default_rng(0).normal(size=(2, 20))
    counts = bootstrap_counts(20, resamples=11, seed=0)
    whole = bootstrap_spearman(gold, predicted, counts)
    monkeypatch.setattr("tertium.evaluation.metrics._BLOCK", 60)
    assert np.array_equal(bootstrap_spearman(gold, predicted, counts), whole)


def test_bootstrap_of_accuracy_is_that_of_explicit_resampling() -> None:
    generator = np.random.default_rng(3)
    correct = generator.random(400) < 0.8
    drawn = correct[generator.integers(0, 400, size=(4000, 400))].mean(axis=1)
    samples = bootstrap_accuracy(correct, resamples=4000, seed=0)
    assert np.quantile(samples, [0.025, 0.5, 0.975]) == pytest.approx(
        np.quantile(drawn, [0.025, 0.5, 0.975]), abs=0.006
    )
    assert (bootstrap_accuracy([1, 1, 1], resamples=5, seed=0) == 1).all()
    again = bootstrap_accuracy(correct, resamples=4000, seed=0)
    assert np.array_equal(samples, again)


def test_interval_holds_the_central_part_and_passes_over_nan() -> None:
    samples = np.array([*range(101), math.nan], dtype=float)
    assert percentile_interval(samples) == pytest.approx((2.5, 97.5))
    assert percentile_interval(samples, level=0.5) == pytest.approx((25, 75))
    assert percentile_interval(np.full(3, math.nan)) is None


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_p_is_two_sided_and_never_below_what_the_samples_allow(values: list[int]) -> None:
    differences = np.array(values, dtype=float)
    p = two_sided_p(differences)
    assert min(1, 2 / (len(values) + 1)) <= p <= 1
    assert p == two_sided_p(-differences)
    assert p == two_sided_p(np.append(differences, math.nan))


def test_p_of_known_samples() -> None:
    assert two_sided_p(np.full(99, 0.1)) == pytest.approx(0.02)
    assert two_sided_p(np.array([1.0] * 95 + [-1.0] * 4)) == pytest.approx(0.1)
    assert two_sided_p(np.zeros(10)) == 1
    assert math.isnan(two_sided_p(np.full(3, math.nan)))
