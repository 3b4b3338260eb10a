import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

from tertium.corpus import exact
from tertium.corpus.exact import close_pairs, nearest
from tests.corpus.draws import all_cosines, clustered, rows


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_LEFT", 5)
    monkeypatch.setattr(exact, "_RIGHT", 7)
    monkeypatch.setattr(exact, "_HELD", 64)
    monkeypatch.setattr(exact, "_PICKED", 64)


@given(n=integers(1, 60), q=integers(0, 12), k=integers(1, 70), seed=integers(0, 2**31))
def test_nearest_is_brute_force(n: int, q: int, k: int, seed: int) -> None:
    vectors = clustered(n + q, seed=seed)
    queries, stored = vectors[:q], vectors[q:]
    found = nearest(rows(stored), queries, k)
    cosines = queries.astype(np.float64) @ stored.T.astype(np.float64)
    assert found.positions.shape == found.scores.shape == (q, min(k, n))
    np.testing.assert_allclose(found.scores, -np.sort(-cosines, axis=1)[:, :k], atol=1e-6)
    np.testing.assert_allclose(
        found.scores, np.take_along_axis(cosines, found.positions, axis=1), atol=1e-6
    )
    assert all(len(set(row)) == len(row) for row in found.positions.tolist())


def test_equals_come_in_their_order() -> None:
    stored = np.repeat(clustered(3), 4, axis=0)
    found = nearest(rows(stored), stored[4:5], 4)
    assert found.positions.tolist() == [[4, 5, 6, 7]]


@given(n=integers(1, 60), threshold=floats(-1, 1), seed=integers(0, 2**31))
def test_close_pairs_are_those_of_the_full_matrix(n: int, threshold: float, seed: int) -> None:
    vectors = clustered(n, seed=seed)
    told: list[int] = []
    found = list(close_pairs(rows(vectors), threshold, done=told.append))
    pairs = [(i, j) for first, second, _ in found for i, j in zip(first, second, strict=True)]
    cosines = all_cosines(vectors)
    upper = np.triu(np.ones((n, n), bool), 1)
    sure = set(zip(*np.nonzero(upper & (cosines >= threshold)), strict=True))
    perhaps = set(zip(*np.nonzero(upper & (cosines >= threshold - 2e-5)), strict=True))
    assert len(pairs) == len(set(pairs))
    assert sure <= set(pairs) <= perhaps
    assert sum(told) == n
    for first, second, scores in found:
        np.testing.assert_allclose(scores, cosines[first, second], atol=1e-6)
