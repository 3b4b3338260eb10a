from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, sampled_from

import tertium
from tertium.corpus import Reason, dedupe
from tertium.corpus.candidates import find_candidates, read_candidates
from tertium.corpus.inputs import distinct
from tertium.corpus.rows import embed_whole, unit
from tertium.errors import TertiumError
from tertium.models.passages import cut_long
from tertium.models.tokens import TokenizationStats
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


ROWS = np.array([[1, 0, 0], [1, 0.1, 0], [1, 0.3, 0], [0, 1, 0], [0, 1, 0.2]], np.float32)
NAMES = ["order 17 is late", "order 18 is late", "order 17 is too late", "hello", "hallo"]


def test_what_differs_where_it_counts_stays() -> None:
    plain = dedupe(NAMES, ROWS, threshold=0.9)
    assert plain.kept == (0, 3) and plain.share == 0.6
    kept = dedupe(NAMES, ROWS, threshold=0.9, keep_different=r"\d+")
    assert kept.kept == (0, 1, 3)
    assert [(gone.row, gone.kept) for gone in kept.dropped] == [(2, 0), (4, 3)]
    same = ["a  1", "a 1", "a 2"]
    assert dedupe(same, None, keep_different=r"\d").kept == (0, 2)
    with pytest.raises(TertiumError, match="not a regular expression"):
        dedupe(same, None, keep_different="(")


def test_against_other_texts() -> None:
    test, train = ["hello", "order 18 is late"], NAMES
    found = dedupe(train, ROWS, against=test, against_vectors=ROWS[[3, 1]], threshold=0.99)
    assert found.kept == (2, 4)
    assert [(gone.row, gone.kept, str(gone.reason)) for gone in found.dropped] == [
        (0, 1, "near"),
        (1, 1, "same"),
        (3, 0, "same"),
    ]
    assert dedupe(train, None, against=test).kept == (0, 2, 4)
    assert dedupe(train, None, against=[]).kept == (0, 1, 2, 3, 4)
    with pytest.raises(TertiumError, match="against_vectors"):
        dedupe(train, ROWS, against=test)
    with pytest.raises(TertiumError, match="leave to out"):
        dedupe(train, ROWS, against=test, to=2)


@given(seed=integers(0, 2**31), count=integers(1, 30))
def test_as_many_as_wanted(seed: int, count: int) -> None:
    vectors = clustered(30, seed=seed)
    texts = [f"text {row}" for row in range(30)]
    found = dedupe(texts, vectors, to=count)
    assert len(found.kept) == count
    kept = set(found.kept)
    assert all(gone.kept in kept and gone.row not in kept for gone in found.dropped)
    with pytest.raises(TertiumError, match="Cannot keep 31 of 30 texts"):
        dedupe(texts, vectors, to=31)


@given(seed=integers(0, 2**31))
def test_candidates_decide_as_a_comparison_does(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    vectors = clustered(40, seed=seed)
    texts = [f"text {row % 35}" for row in range(40)]
    path = tmp_path_factory.mktemp("drawn") / "c.npz"
    find_candidates(texts, vectors, floor=0.5).save(path)
    stored = read_candidates(path)
    for threshold in (0.5, 0.7, 0.95):
        wanted = dedupe(texts, vectors, threshold=threshold)
        found = stored.dedupe(texts, threshold=threshold)
        assert (found.kept, found.method) == (wanted.kept, wanted.method)
        for one, other in zip(found.dropped, wanted.dropped, strict=True):
            assert (one.row, one.kept, one.reason) == (other.row, other.kept, other.reason)
            assert one.score == pytest.approx(other.score, abs=1e-6)
    with pytest.raises(TertiumError, match="among other texts"):
        stored.dedupe(texts[1:], threshold=0.9)
    path.write_bytes(b"nothing")
    with pytest.raises(TertiumError, match="not a file of candidates") as raised:
        read_candidates(path)
    assert "pickle" not in str(raised.value)


def test_a_first_pass_by_minhash() -> None:
    pytest.importorskip("rensa", reason="the extra 'minhash' is not installed")
    texts = [f"the quick brown fox number {row} jumps over the lazy dog" for row in range(3)]
    texts += ["something else entirely, without any of these", *texts[:1], "x"]
    vectors = np.array([[1, 0], [1, 0.01], [1, 0.02], [1, 0], [1, 0], [1, 0]], np.float32)
    found = dedupe(texts, vectors, threshold=0.9, method="minhash")
    assert found.kept == (0, 3, 5)  # what shares no letters is not compared
    assert [str(gone.reason) for gone in found.dropped] == ["near", "near", "same"]
    beside = {"against": texts[:1], "against_vectors": vectors[:1], "method": "minhash"}
    other = dedupe(texts[1:4], vectors[1:4], threshold=0.9, **beside)  # type: ignore[arg-type]
    assert (other.kept, other.method) == ((2,), "minhash")


def test_minhash_of_one_template() -> None:
    pytest.importorskip("rensa", reason="the extra 'minhash' is not installed")
    texts = [f"Your ticket number {n} was received and will be answered soon." for n in range(120)]
    found = dedupe(texts, np.ones((len(texts), 4)), threshold=0.9, method="minhash")
    assert found.kept == (0,)  # however many share a bucket


def test_long_texts_are_read_whole(tiny_bert: Path) -> None:
    model = tertium.load(tiny_bert)
    long = "the cat sleeps . " * 60
    texts = [
        long + "a b c d e . " * 60,
        long + "x y z dog barks . " * 60,
        long + "a b c d e . " * 60,
    ]
    found = embed_whole(model, texts)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert found[0] @ found[2] == pytest.approx(1, abs=1e-5)
    assert found[0] @ found[1] < 0.999  # their beginnings are the same
    spans = cut_long(model, texts[:1])[0]
    parts = unit(model.encode([texts[0][a:b] for a, b in spans], truncation=TokenizationStats()))
    np.testing.assert_allclose(found[0], unit(parts.mean(axis=0)[None])[0], atol=1e-5)
