from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, sampled_from

from tertium.corpus import exact, mine, mining
from tertium.errors import TertiumError
from tests.corpus.draws import all_cosines, clustered
from tests.fakes import HashEncoder


def texts(n: int) -> list[str]:
    return [f"text {number}" for number in range(n)]


def brute_force(vectors: np.ndarray, threshold: float, top_k: int) -> dict[tuple[int, int], float]:
    """Every pair that is near enough and among the nearest of either text."""
    cosines = all_cosines(vectors)
    np.fill_diagonal(cosines, -2)
    near = np.argsort(-cosines, axis=1, kind="stable")[:, :top_k]
    found = {}
    for i in range(len(vectors)):
        for j in range(i + 1, len(vectors)):
            if cosines[i, j] >= threshold and (j in near[i] or i in near[j]):
                found[i, j] = cosines[i, j]
    return found


@given(
    n=integers(2, 60),
    threshold=floats(-1, 0.95),
    top_k=integers(1, 8),
    most=sampled_from([4, 1 << 20]),
    seed=integers(0, 2**31),
)
def test_all_pairs_of_a_loop(n: int, threshold: float, top_k: int, most: int, seed: int) -> None:
    vectors = clustered(n, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_LEFT", 8)
        patch.setattr(exact, "_RIGHT", 16)
        patch.setattr(mining, "_LEAST", most)  # of which the least makes it forget pairs early
        found = mine(texts(n), vectors, threshold=threshold, top_k=top_k)
    expected = brute_force(vectors, threshold, top_k)
    assert {(pair.first, pair.second) for pair in found} == set(expected)
    for first, second, score in found:
        assert score == pytest.approx(expected[first, second], abs=1e-6)


def test_a_low_threshold_holds_few_pairs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "_LEAST", 16)
    vectors = clustered(300)
    best = mining.BestPairs(300, 2)
    held = []
    for first, second, scores in exact.close_pairs(
        exact.Rows([vectors], normalised=True), -1.0, done=lambda rows: None
    ):
        for at in range(0, len(first), 200):
            best.add(first[at : at + 200], second[at : at + 200], scores[at : at + 200])
            held.append(best._held)
    assert max(held) <= 2 * 300 * 2 + 200
    assert len(best.pairs()[0]) <= 300 * 2


@pytest.mark.parametrize("method", ["exact", "hnsw"])
def test_sorted_once_and_never_oneself(method: str) -> None:
    vectors = clustered(400)
    found = list(mine(texts(400), vectors, threshold=0.7, method=method))
    assert len(found) > 100
    assert all(pair.first < pair.second for pair in found)
    assert len({pair[:2] for pair in found}) == len(found)
    assert found == sorted(found, key=lambda pair: (-pair.score, pair.first, pair.second))
    assert min(pair.score for pair in found) >= 0.7
    assert list(mine(texts(400), vectors, threshold=0.7, method=method)) == found
    assert list(mine(texts(400), vectors, threshold=0.7, method=method, limit=5)) == found[:5]


def test_the_order_of_texts_does_not_matter() -> None:
    vectors = clustered(200)
    turned = mine(texts(200), vectors[::-1], threshold=0.7)
    forth = mine(texts(200), vectors, threshold=0.7)
    there = {(pair.first, pair.second) for pair in forth}
    assert there == {(199 - pair.second, 199 - pair.first) for pair in turned}


def test_a_graph_finds_nearly_all() -> None:
    vectors = clustered(3000, width=32)
    truth = {pair[:2] for pair in mine(texts(3000), vectors, threshold=0.8, method="exact")}
    found = {pair[:2] for pair in mine(texts(3000), vectors, threshold=0.8, method="hnsw")}
    assert len(truth) > 1000
    assert found <= truth and len(found) > 0.98 * len(truth)


def test_a_repeated_text_is_no_paraphrase() -> None:
    model = HashEncoder()
    found = mine(["a", "b ", "a", " b", "c"], model, threshold=-1, top_k=4)
    assert {pair[:2] for pair in found} == {(0, 1), (0, 4), (1, 4)}
    assert found.repeats == 2 and model.seen == ["a", "b ", "c"]


@pytest.mark.parametrize("few", [[], ["a"], ["a", "a"]])
def test_too_few_texts_for_a_pair(few: list[str]) -> None:
    assert len(mine(few, HashEncoder())) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 1.5}, "from -1 to 1, not 1.5"),
        ({"threshold": float("nan")}, "from -1 to 1"),
        ({"top_k": 0}, "at least one"),
        ({"limit": 0}, "at least one"),
        ({"source": np.zeros((3, 4))}, "do not fit 2 texts"),
        ({"source": np.array([[1.0, 0], [np.nan, 1]])}, "Vector 2 is not finite"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    with pytest.raises(TertiumError, match=said):
        mine(["a", "b"], **{"source": HashEncoder(), **options})
