from pathlib import Path

import numpy as np
import pytest

from tertium.corpus.exact import nearest, ranked
from tertium.corpus.hnsw import Graph, codes
from tertium.errors import MissingExtraError, TertiumError
from tests.corpus.draws import all_cosines, clustered, rows

VECTORS = clustered(3000, width=32, spread=0.8)


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = Graph(32)
    for start in range(0, len(VECTORS), 700):
        made.add(start, VECTORS[start : start + 700], threads=1)
    return made


def test_codes_keep_cosines() -> None:
    small = codes(VECTORS[:200])
    assert small.dtype == np.int8 and np.abs(small).max(axis=1).min() == 127
    wide = small.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    np.testing.assert_allclose(wide @ wide.T, all_cosines(VECTORS[:200]), atol=0.01)


def test_candidates_hold_nearly_all_neighbours(graph: Graph) -> None:
    queries = clustered(300, width=32, spread=0.8, seed=0)
    truth = nearest(rows(VECTORS), queries, 10).positions
    found = ranked(rows(VECTORS), queries, graph.search(queries, 26)).positions[:, :10]
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(truth, found, strict=True)]
    assert np.mean(shares) > 0.97


def test_one_query_is_found_as_among_many(graph: Graph) -> None:
    many = graph.search(VECTORS[:40], 5)
    for at in range(5):
        np.testing.assert_array_equal(graph.search(VECTORS[at : at + 1], 5)[0], many[at])


def test_more_than_there_are() -> None:
    graph = Graph(32)
    assert graph.search(VECTORS[:2], 5).shape == (2, 0)
    graph.add(7, VECTORS[:3], threads=1)
    for queries in (VECTORS[:1], VECTORS[:4]):
        found = graph.search(queries, 5)
        assert found.shape == (len(queries), 3)
        assert all(sorted(row) == [7, 8, 9] for row in found.tolist())


def test_the_same_graph_every_time(graph: Graph, tmp_path: Path) -> None:
    again = Graph(32)
    for start in range(0, len(VECTORS), 700):
        again.add(start, VECTORS[start : start + 700], threads=1)
    np.testing.assert_array_equal(again.search(VECTORS, 5), graph.search(VECTORS, 5))


def test_a_saved_graph_answers_and_grows(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    graph.save(path)
    mapped, whole = Graph.open(path, 32), Graph.open(path, 32, writable=True)
    expected = graph.search(VECTORS[:50], 5)
    np.testing.assert_array_equal(mapped.search(VECTORS[:50], 5), expected)
    other = clustered(1, width=32, seed=5)
    whole.add(3000, other, threads=1)
    assert len(whole) == 3001 and whole.search(other, 1).tolist() == [[3000]]


@pytest.mark.parametrize("kept", [0, 20, 5000])
def test_a_broken_file_is_named(graph: Graph, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "graph"
    graph.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TertiumError, match="graph is damaged"):
        Graph.open(path, 32, writable=True)


def test_without_usearch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[search\]'"):
        Graph(4)
