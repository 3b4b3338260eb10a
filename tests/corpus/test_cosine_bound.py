import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, sampled_from

from tertium.corpus import dedupe, exact, mine
from tertium.corpus.exact import CosineBound
from tertium.corpus.rows import Rows, unit
from tests.corpus.draws import all_cosines, clustered, rows


def flat(n: int, width: int = 24, *, seed: int = 0) -> np.ndarray:
    """Neighbourhoods that lie near a few directions, as those of real sentences do."""
    vectors = clustered(n, width=width, seed=seed)
    return unit(vectors * np.geomspace(1, 0.05, width))


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_LEAST", 2)
    monkeypatch.setattr(exact, "_WIDTHS", (4, 8, 16))


@given(n=integers(2, 40), width=sampled_from([1, 3, 24]), seed=integers(0, 2**31))
def test_bounds_are_never_below_the_cosine(n: int, width: int, seed: int) -> None:
    vectors = flat(n, seed=seed)
    vectors[0] = 0
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((24, 24)))[0][:, :width]
    bounds = CosineBound(rows(vectors), basis.astype(np.float32)).vectors
    assert (bounds @ bounds.T >= all_cosines(vectors) - 1e-6).all()


@given(
    n=integers(2, 120),
    threshold=floats(0.3, 0.99),
    look=sampled_from([0.0, 100.0, 1e9]),
    seed=integers(0, 2**31),
)
def test_nothing_is_lost(n: int, threshold: float, look: float, seed: int) -> None:
    vectors, texts = flat(n, seed=seed), [str(row) for row in range(n)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_LEAST", 1000)
        pairs, clean = mine(texts, vectors, threshold=threshold), dedupe(texts, vectors)
        patch.setattr(exact, "_LEAST", 2)
        patch.setattr(exact, "_WORTH", 1e12)
        assert CosineBound.fitting(rows(vectors), threshold) is not None
        patch.setattr(exact, "_FULL_LOOK", look)  # from single pairs only to whole blocks only
        assert list(mine(texts, vectors, threshold=threshold)) == list(pairs)
        assert dedupe(texts, vectors) == clean


def test_a_bound_is_used_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_OVERHEAD", 0)  # vectors as narrow as these would never be worth it
    monkeypatch.setattr(exact, "_FULL_LOOK", 2.0)
    narrow = CosineBound.fitting(rows(flat(600)), 0.95)
    assert narrow is not None and narrow.vectors.shape[1] - 1 in (4, 8, 16)
    again = CosineBound.fitting(rows(flat(600)), 0.95)
    assert again is not None
    np.testing.assert_array_equal(narrow.vectors, again.vectors)
    assert CosineBound.fitting(rows(flat(600)), -0.5) is None
    everywhere = unit(np.random.default_rng(0).standard_normal((600, 24)))
    assert CosineBound.fitting(Rows([everywhere], normalised=True), 0.7) is None
    assert CosineBound.fitting(rows(flat(600)[:, :4]), 0.95) is None  # narrow already
    assert CosineBound.fitting(rows(flat(1)), 0.95) is None
