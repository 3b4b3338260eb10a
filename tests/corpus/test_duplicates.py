import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, sampled_from

from tertium.corpus import Reason, dedupe
from tertium.corpus.inputs import distinct
from tertium.errors import TertiumError
from tests.corpus.draws import all_cosines, clustered
from tests.fakes import HashEncoder


def texts(n: int) -> list[str]:
    return [f"text {number}" for number in range(n)]


def loop(vectors: np.ndarray, threshold: float) -> list[int]:
    cosines = all_cosines(vectors)
    kept: list[int] = []
    for row in range(len(vectors)):
        if not any(cosines[row, other] >= threshold for other in kept):
            kept.append(row)
    return kept


@given(
    n=integers(1, 80),
    threshold=floats(-0.5, 1),
    block=sampled_from([1, 7, 1024]),
    seed=integers(0, 2**31),
)
def test_a_loop_keeps_the_same(n: int, threshold: float, block: int, seed: int) -> None:
    vectors = clustered(n, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tertium.corpus.duplicates._BLOCK", block)
        patch.setattr("tertium.corpus.duplicates._KEPT", 5)
        found = dedupe(texts(n), vectors, threshold=threshold)
    assert list(found.kept) == loop(vectors, threshold)
    assert sorted([*found.kept, *(gone.row for gone in found.dropped)]) == list(range(n))
    cosines = all_cosines(vectors)
    for gone in found.dropped:
        earlier = [row for row in found.kept if row < gone.row]
        assert gone.kept in earlier and gone.score >= threshold
        assert gone.score == pytest.approx(cosines[gone.row, earlier].max(), abs=1e-6)
        assert gone.score == pytest.approx(cosines[gone.row, gone.kept], abs=1e-6)
        assert gone.reason is Reason.NEAR


@pytest.mark.parametrize("method", ["exact", "hnsw"])
@pytest.mark.parametrize("threshold", [0.5, 0.75, 0.85])
def test_once_is_enough(method: str, threshold: float) -> None:
    vectors = clustered(700, width=32, seed=3)
    first = dedupe(texts(700), vectors, threshold=threshold, method=method)
    assert 0 < len(first.kept) < 700
    assert list(first.kept) == sorted(first.kept)
    assert dedupe(texts(700), vectors, threshold=threshold, method=method) == first
    again = dedupe(texts(len(first.kept)), vectors[list(first.kept)], threshold=threshold)
    assert again.dropped == ()


def test_a_graph_overlooks_hardly_anything() -> None:
    vectors = clustered(3000, width=32, spread=0.4)
    exact = dedupe(texts(3000), vectors, threshold=0.85, method="exact")
    graph = dedupe(texts(3000), vectors, threshold=0.85, method="hnsw")
    assert len(exact.dropped) > 1500
    assert len(set(exact.kept) ^ set(graph.kept)) < 0.01 * 3000
    assert all(gone.score >= 0.85 and gone.kept in set(graph.kept) for gone in graph.dropped)


def test_a_chain_breaks_where_the_first_is_no_longer_near() -> None:
    angles = np.radians([0, 20, 40])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = dedupe(["a", "b", "c"], vectors, threshold=0.9)  # the cosine of 20 degrees is 0.94
    assert found.kept == (0, 2)
    assert [(gone.row, gone.kept) for gone in found.dropped] == [(1, 0)]


def test_the_same_texts_need_no_model() -> None:
    found = dedupe(["a b", "", "A b", " a\tb", "\n", "cafe\u0301", "caf\u00e9"], None)
    assert found.kept == (0, 1, 2, 5) and found.method is None
    assert [(gone.row, gone.kept, gone.score, gone.reason) for gone in found.dropped] == [
        (3, 0, 1.0, "same"),
        (4, 1, 1.0, "same"),
        (6, 5, 1.0, "same"),
    ]


def test_a_repetition_of_what_went_points_at_what_stays() -> None:
    vectors = np.array([[1, 0], [1, 0.1], [1, 0.1], [0, 1]])
    found = dedupe(["a", "b", "b", "c"], vectors, threshold=0.9)
    assert found.kept == (0, 3)
    assert [(gone.row, gone.kept, str(gone.reason)) for gone in found.dropped] == [
        (1, 0, "near"),
        (2, 0, "near"),
    ]
    assert found.dropped[0].score == found.dropped[1].score < 1


def test_the_model_reads_each_text_once() -> None:
    model = HashEncoder()
    assert dedupe(["a", "b", "a"], model, threshold=0.99).kept == (0, 1)
    assert model.seen == ["a", "b"]


def test_nothing_to_clean() -> None:
    assert dedupe([], HashEncoder()).kept == ()
    assert distinct([]).rows == ()


@pytest.mark.parametrize("threshold", [-1.1, 2, float("nan")])
def test_a_threshold_is_a_cosine(threshold: float) -> None:
    with pytest.raises(TertiumError, match="from -1 to 1"):
        dedupe(["a"], None, threshold=threshold)
