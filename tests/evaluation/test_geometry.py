import json
import math

import pytest

from tertium.evaluation import Report, run
from tests.evaluation.conftest import Folder, Placed

POINTS = {"a": (2, 0), "b": (0, 3), "c": (-1, 0), "d": (1, 0)}


def measure(folder: Folder, *scores: float) -> Report:
    pairs = [("a", "b"), ("c", "d")]
    rows = [(s, *pair) for s, pair in zip(scores, pairs, strict=True)]
    folder.sts("stsb.tsv", rows, part="test")
    model = Placed(lambda text: POINTS.get(text, (0, 0)))
    return run(model, {"geometry": ["geometry"]}, folder=folder.path)


def test_four_points_by_hand(folder: Folder) -> None:
    found = measure(folder, 5, 4)["geometry"].to_json()
    # On the circle: a = d = (1, 0), b = (0, 1), c = (-1, 0).
    assert found["alignment"] == pytest.approx(
        2
    )  # of a and b alone: the gold of c and d is not > 4
    squares = [2, 4, 0, 2, 2, 4]
    assert found["uniformity"] == pytest.approx(
        math.log(sum(math.exp(-2 * s) for s in squares) / 6)
    )
    assert found["anisotropy"] == pytest.approx((0 - 1 + 1 + 0 + 0 - 1) / 6)
    # Scatter matrix [[11/4, -1/4], [-1/4, 3/4]]: trace 7/2, determinant 2.
    singular = [math.sqrt((3.5 + sign * math.sqrt(3.5**2 - 4 * 2)) / 2) for sign in (1, -1)]
    shares = [value / sum(singular) for value in singular]
    rank = math.exp(-sum(share * math.log(share) for share in shares))
    assert found["effective_rank"] == pytest.approx(rank)
    assert (found["dimension"], found["positives"], found["sentences"]) == (2, 1, 4)


def test_without_a_positive_pair_alignment_is_undefined(folder: Folder) -> None:
    report = measure(folder, 4, 1)
    assert report.to_json()["results"]["geometry"]["alignment"] is None
    json.dumps(report.to_json(), allow_nan=False)
    assert "undefined" in str(report)
