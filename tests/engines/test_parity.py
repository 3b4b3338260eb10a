import numpy as np
import pytest

from tertium.engines.parity import (
    Parity,
    calibration_texts,
    calibration_triples,
    check_parity,
    parity_texts,
    parity_triples,
    score_parity,
    vector_parity,
)
from tertium.errors import TertiumError


def test_texts_are_many_and_odd_and_not_those_of_calibration() -> None:
    texts = parity_texts()
    assert len(texts) == len(set(texts)) > 60
    assert "" in texts and max(len(text.split()) for text in texts) > 512
    assert set(texts).isdisjoint(calibration_texts())
    assert set(parity_triples()).isdisjoint(calibration_triples())
    assert all(len(triple) == 3 for triple in [*parity_triples(), *calibration_triples()])


def test_figures() -> None:
    expected = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)
    found = np.array([[1.0, 0.0], [2.0, 2.0]], np.float32)
    parity = vector_parity(found, expected)
    assert parity.worst == pytest.approx(2**-0.5)
    assert parity.mean == pytest.approx((1 + 2**-0.5) / 2)
    assert parity.length == pytest.approx(2**0.5 - 1)
    scores = score_parity(np.array([1.0, 3.0]), np.array([1.0, 2.0]), (1.0, 5.0))
    assert (scores.worst, scores.mean, scores.items) == (0.25, 0.125, 2)
    assert "0.70711 at worst" in str(parity) and "25.000 % of the scale" in str(scores)


def cosine(worst: float, mean: float, length: float = 0.0) -> Parity:
    return Parity(measure="cosine", items=9, worst=worst, mean=mean, length=length)


def score(worst: float, mean: float) -> Parity:
    return Parity(measure="score", items=9, worst=worst, mean=mean)


@pytest.mark.parametrize(
    ("parity", "exact"),
    [
        (cosine(0.99990, 1.0), True),
        (cosine(0.8, 0.99), False),
        (cosine(1.0, 1.0, 0.0009), True),
        (score(0.0009, 0.0), True),
        (score(0.5, 0.019), False),
    ],
)
def test_good_ones_pass(parity: Parity, *, exact: bool) -> None:
    check_parity(parity, exact=exact, what="It")


@pytest.mark.parametrize(
    ("parity", "exact", "says"),
    [
        (cosine(0.9998, 1.0), True, "0.99980 at worst.*every cosine must reach 0.9999"),
        (cosine(0.98, 0.989), False, "0.98900 on average.*the mean cosine must reach 0.99"),
        (cosine(1.0, 1.0, 0.002), True, r"agree to 0.1 % \(they do to 0.2 %\)"),
        (cosine(float("nan"), float("nan")), True, "nan"),
        (score(0.002, 0.0), True, "0.200 % of the scale at worst.*no difference may exceed 0.1 %"),
        (score(0.03, 0.03), False, "the mean difference may exceed 2 %.*--keep-float"),
    ],
)
def test_bad_ones_are_refused_with_the_figures(parity: Parity, *, exact: bool, says: str) -> None:
    with pytest.raises(TertiumError, match=f"^It is refused: .*{says}"):
        check_parity(parity, exact=exact, what="It")
