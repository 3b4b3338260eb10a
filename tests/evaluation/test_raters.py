import numpy as np
import pytest

from tertium.evaluation.raters import krippendorff_alpha, rater_agreement

# The example of Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): four observers
# and twelve units.
N = np.nan
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]


def test_alpha_of_the_published_example() -> None:
    assert krippendorff_alpha(OBSERVERS, nominal=True) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(OBSERVERS) == pytest.approx(0.849, abs=5e-4)


def test_alpha_of_agreement_chance_and_one_value() -> None:
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]]) == 1.0
    random = np.random.default_rng(0).integers(0, 6, (2, 4000))
    assert krippendorff_alpha(random) == pytest.approx(0, abs=0.05)
    assert np.isnan(krippendorff_alpha([[1, 1], [1, 1]]))


def test_the_ceiling_is_what_a_perfect_model_reaches() -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=1000)
    ratings = {f"r{at}": truth + generator.normal(size=1000) for at in range(3)}
    found = rater_agreement(ratings, binary=False)
    assert found is not None
    mean = np.mean(list(ratings.values()), axis=0)
    assert found["perfect_model"] == pytest.approx(100 * np.corrcoef(truth, mean)[0, 1], abs=3)
    assert len(found["pairwise"]) == 3
    assert found["alpha"] == pytest.approx(0.5, abs=0.05)


def test_one_rater_agrees_with_nobody() -> None:
    assert rater_agreement({"a": [1, 2, 3]}, binary=False) is None
