import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.evaluation.calibration import (
    calibrate,
    fit_isotonic,
    fit_linear,
    fit_platt,
    isotonic,
    log_loss,
)

columns = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), min_size=3, max_size=40)


@given(columns)
def test_isotonic_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    from sklearn.isotonic import IsotonicRegression

    x, y = (np.array(side, float) for side in zip(*pairs, strict=True))
    theirs = IsotonicRegression(out_of_bounds="clip").fit(x, y)
    ours = fit_isotonic(x, y, 0.0, 5.0)
    asked = np.linspace(-1, 9, 41)
    assert ours(asked) == pytest.approx(theirs.predict(asked), abs=1e-9)


def test_isotonic_by_hand() -> None:
    assert isotonic([1, 3, 2, 4]).tolist() == [1, 2.5, 2.5, 4]
    assert isotonic([3, 2, 1]).tolist() == [2, 2, 2]
    assert isotonic([2, 1], [1, 3]).tolist() == [1.25, 1.25]


@given(columns)
def test_calibrations_never_fall_and_stay_in_their_scale(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, float) for side in zip(*pairs, strict=True))
    yes = (y > 2).astype(float)
    yes[:2] = 0, 1
    asked = np.linspace(-3, 12, 60)
    for found, low, high in (
        (fit_isotonic(x, y, 0.0, 5.0), 0, 5),
        (fit_linear(x, y, 0.0, 5.0), 0, 5),
        (fit_platt(x, yes, 0.01, 0.99), 0.01, 0.99),
    ):
        values = found(asked)
        assert (np.diff(values) >= 0).all()
        assert values.min() >= low and values.max() <= high


@given(columns, st.randoms(use_true_random=False))
def test_order_does_not_matter(pairs: list[tuple[int, int]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    asked = np.linspace(0, 8, 30)
    for fit in (fit_isotonic, fit_linear):
        values = [
            fit(*(np.array(side, float) for side in zip(*rows, strict=True)), 0.0, 5.0)(asked)
            for rows in (pairs, shuffled)
        ]
        assert values[0] == pytest.approx(values[1])


def test_platt_is_scikit_learns() -> None:
    from sklearn.calibration import _sigmoid_calibration

    generator = np.random.default_rng(0)
    labels = (generator.random(300) < 0.4).astype(float)
    scores = generator.normal(size=300) * 0.1 + 0.15 * labels + 0.6
    slope, offset = _sigmoid_calibration(scores, labels)
    found = fit_platt(scores, labels, 0.0, 1.0)
    assert (found.slope, found.offset) == pytest.approx((-slope, -offset), rel=1e-3)


def test_scores_that_fall_get_a_constant() -> None:
    scores, labels = np.arange(10.0), np.repeat([1.0, 0.0], 5)
    assert np.ptp(fit_platt(scores, labels, 0.0, 1.0)(scores)) == 0
    assert np.ptp(fit_linear(scores, labels, 0.0, 1.0)(scores)) == 0
    assert np.ptp(fit_isotonic(scores, labels, 0.0, 1.0)(scores)) == 0


def test_what_serves_unseen_pairs_is_chosen() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random(400)
    folds = np.arange(400) % 5
    step = (scores > 0.3).astype(float)  # no logistic curve
    noisy = np.where(generator.random(400) < 0.25, 1 - step, step)
    assert calibrate(scores, noisy, folds, scale=None)[0].method == "isotonic"
    logistic = (generator.random(400) < 1 / (1 + np.exp(-6 * (scores - 0.5)))).astype(float)
    found, losses, _ = calibrate(scores, logistic, folds, scale=None)
    assert found.method == "platt"
    assert losses["platt"] < losses["isotonic"]
    assert log_loss(logistic, found(scores)) < 0.69


def test_grades_on_their_own_scale() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random(300)
    grades = (1 + 4 * scores + generator.normal(size=300) * 0.3).clip(1, 5)
    found, *_ = calibrate(scores, grades, np.arange(300) % 5, scale=(1.0, 5.0))
    assert found(np.array([-9.0, 9.0])).tolist() == pytest.approx([1, 5], abs=0.4)
    assert np.abs(found(scores) - grades).mean() < 0.4
