import contextlib
import errno
import itertools
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from tertium.corpus import Index, write
from tertium.corpus.rows import unit
from tertium.errors import DiskFullError, ModelNotFoundError, TertiumError, TertiumWarning
from tests.corpus.draws import clustered
from tests.fakes import HashEncoder

TEXTS = [f"text {number}" for number in range(60)]


class Given(HashEncoder):
    """Gives text i the vector i of a matrix."""

    def __init__(self, vectors: np.ndarray) -> None:
        super().__init__("given", vectors.shape[1])
        self.vectors = vectors

    def _vector(self, text: str) -> np.ndarray:
        return np.asarray(self.vectors[int(text.split()[1])])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph from forty texts on."""
    monkeypatch.setattr(write, "EXACT_SEARCH", 40)


def files(folder: Path) -> set[str]:
    """Without those that SQLite has beside its own while it is open."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(("-wal", "-shm"))}


def test_few_texts_are_searched_exactly(tmp_path: Path) -> None:
    model = HashEncoder()
    index = Index.build(tmp_path / "deep" / "index", TEXTS, model)
    assert (len(index), index.manifest.graph, index.manifest.recall) == (60, None, None)
    cosines = unit(model.encode(["query"])) @ unit(model.encode(TEXTS)).T
    order = np.argsort(-cosines[0])
    hits = index.search("query", top_k=5)
    assert [hit.text for hit in hits] == [TEXTS[at] for at in order[:5]]
    assert [hit.id for hit in hits] == [str(at + 1) for at in order[:5]]
    np.testing.assert_allclose([hit.score for hit in hits], cosines[0][order[:5]], atol=1e-6)
    floor = hits[2].score
    assert index.search("query", top_k=5, threshold=floor) == hits[:3]


def test_asking_for_more_than_there_are_gives_all(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", TEXTS[:4], HashEncoder())
    assert sorted(hit.text for hit in index.search("query", top_k=100)) == TEXTS[:4]
    with pytest.raises(TertiumError, match="at least one neighbour, not 0"):
        index.search("query", top_k=0)
    assert index.search_many([]) == []


@given(sizes=lists(integers(1, 12), min_size=1, max_size=6), seed=integers(0, 2**31))
def test_however_texts_arrive(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    vectors = clustered(sum(sizes), seed=seed)
    model = Given(vectors)
    texts = [f"text {row}" for row in range(len(vectors))]
    ends = np.cumsum(sizes).tolist()
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "EXACT_SEARCH", 15)
        index = Index.build(folder / "index", texts[: ends[0]], model)
        for start, stop in itertools.pairwise(ends):
            assert index.add(texts[start:stop]) == stop - start
    index.check()
    assert len(index) == len(vectors)
    assert len(index.manifest.segments) <= np.log2(len(vectors)) + 1
    waiting = len(index) - (index.manifest.graph.count if index.manifest.graph else 0)
    assert waiting < 15
    right = 0
    for row, hits in enumerate(index.search_many(texts, top_k=3)):
        assert hits[0].score == pytest.approx(1, abs=1e-6)
        found = [hit.score for hit in hits]
        own = [vectors[row] @ vectors[int(hit.text.split()[1])] for hit in hits]
        np.testing.assert_allclose(found, own, atol=1e-5)
        expected = np.sort(vectors @ vectors[row])[::-1][:3]
        right += np.isclose(found, expected, atol=1e-5).sum() == len(expected)
        assert all(hit.id == str(int(hit.text.split()[1]) + 1) for hit in hits)
    assert right >= 0.9 * len(texts)  # a graph may overlook a neighbour


@pytest.mark.usefixtures("few")
def test_a_graph_takes_over_and_grows(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = Index.build(folder, TEXTS, HashEncoder())
    assert index.manifest.graph is not None and index.manifest.graph.count == 60
    assert index.manifest.recall is not None
    assert index.manifest.recall.value > 0.95 and index.manifest.recall.texts == 60
    index.add(["a", "b"])
    assert index.manifest.graph.count == 60  # the two wait, and are searched exactly
    assert index.search("b", top_k=1)[0].id == "62"
    first = index.manifest.graph.name
    index.add([f"more {number}" for number in range(38)])
    assert index.manifest.graph.count == 100 and index.manifest.recall.texts == 100
    assert first not in files(folder)
    assert index.search("more 37", top_k=1)[0].id == "100"


def test_recall_on_neighbourhoods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "EXACT_SEARCH", 1000)
    vectors = clustered(2500, width=32, spread=0.8)
    texts = [f"text {row}" for row in range(2500)]
    for dtype in ("float32", "int8"):
        index = Index.build(tmp_path / dtype, texts, Given(vectors), dtype=dtype)
        recall = index.manifest.recall
        assert recall is not None and recall.value > 0.95
        assert (recall.at, recall.queries, str(recall.against)) == (10, 200, "float32")


def test_int8_takes_a_quarter(tmp_path: Path) -> None:
    vectors = clustered(500, width=64)
    texts = [f"text {row}" for row in range(500)]
    plain = Index.build(tmp_path / "plain", texts, Given(vectors))
    small = Index.build(tmp_path / "small", texts, Given(vectors), dtype="int8")
    sizes = [
        (index.folder / index.manifest.segments[0].name).stat().st_size - 128
        for index in (plain, small)
    ]
    assert sizes[0] == 4 * sizes[1]
    assert len(files(small.folder)) == len(files(plain.folder))
    assert small.manifest.recall is not None and 0.9 < small.manifest.recall.value <= 1
    for a, b in zip(plain.search_many(texts[:50]), small.search_many(texts[:50]), strict=True):
        assert a[0].id == b[0].id
        np.testing.assert_allclose([h.score for h in a], [h.score for h in b], atol=0.01)
    before = small.manifest.recall
    small.add(["text 3"], ids=["again"])
    assert small.manifest.recall == before  # measured when float32 was at hand


def test_stored_vectors_save_encoding(tmp_path: Path) -> None:
    model = HashEncoder()
    vectors = 5 * model.encode(TEXTS)
    model.seen.clear()
    index = Index.build(tmp_path / "index", TEXTS, model, vectors=vectors)
    assert len(model.seen) == 8
    assert index.search("text 50", top_k=1)[0].score == pytest.approx(1, abs=1e-6)
    for wrong, said in [
        (vectors[:-1], "do not fit 60 texts"),
        (vectors[:, :4], "width 16"),
        (vectors[::-1], "another model, or of another text"),
        (np.where(np.arange(60)[:, None] == 7, np.nan, vectors), "Vector 8 is not finite"),
    ]:
        with pytest.raises(TertiumError, match=said):
            Index.build(tmp_path / "other", TEXTS, model, vectors=wrong)
        assert not (tmp_path / "other").exists()


def test_ids_of_the_user(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", ["one", "two"], HashEncoder(), ids=["x", "ü\n"])
    assert index.search("two", top_k=1)[0].id == "ü\n"
    index.add(["three"])
    assert index.search("three", top_k=1)[0].id == "3"
    before = files(index.folder)
    for texts, ids, said in [
        (["a", "b"], ["n", "n"], "'n' occurs twice, for texts 1 and 2"),
        (["a", "b"], ["n", "x"], "id 'x' of text 2 is in .*index already"),
        (["a", "b"], ["n"], "as many ids as texts"),
        ([], None, "no texts"),
    ]:
        with pytest.raises(TertiumError, match=said):
            index.add(texts, ids=ids)
        assert files(index.folder) == before
    assert len(index) == len(Index.open(index.folder)) == 3


def test_texts_come_back_as_they_were(tmp_path: Path) -> None:
    odd = ["", " ", "a\nb\r\n\tc", "üñí 🙂", "\u2028", "lone \ud800", '"}', "x" * 100_000]
    with pytest.warns(TertiumWarning, match="3 texts are empty"):
        index = Index.build(tmp_path / "index", odd, _Any())
    assert [entry.text for entry in index] == odd
    index.check()


class _Any(HashEncoder):
    def _vector(self, text: str) -> np.ndarray:
        return super()._vector(repr(text))


def test_another_model_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    Index.build(folder, TEXTS, HashEncoder("one"))
    for model, said in [
        (HashEncoder("two"), "was built with the model one, and two has other weights"),
        (HashEncoder("one", dimension=8), "vectors of width 8, the index has 16"),
    ]:
        with pytest.raises(TertiumError, match=said):
            Index.open(folder, model)
    index = Index.open(folder)
    with pytest.raises(ModelNotFoundError, match="not found under its name"):
        index.search("a")
    with pytest.raises(TertiumError, match=r"shape \(1, 4\) do not fit"):
        index.search_vectors(np.ones((1, 4)))
    assert len(index.search_vectors(np.ones((2, 16)), top_k=3)[1]) == 3


def test_the_model_is_loaded_by_its_name(tmp_path: Path, tiny_bert: Path) -> None:
    import tertium

    model = tertium.load(tiny_bert)
    Index.build(tmp_path / "index", ["the cat", "a dog barks"], model)
    index = Index.open(tmp_path / "index")
    assert index.search("the cat", top_k=1)[0].id == "1"
    assert index.add(["cat sleeps"]) == 1


def test_vectors_must_be_finite(tmp_path: Path) -> None:
    model = Given(np.full((3, 4), np.nan))
    with pytest.raises(TertiumError, match="not finite for 'text 1'"):
        Index.build(tmp_path / "index", ["text 1"], model)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("texts", [[], iter([])])
def test_no_texts(tmp_path: Path, texts: Any) -> None:
    with pytest.raises(TertiumError, match="no texts to index"):
        Index.build(tmp_path / "index", texts, HashEncoder())
    assert not (tmp_path / "index").exists()


def test_a_text_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="text 1 is int"):
        Index.build(tmp_path / "index", ["a", 3], HashEncoder())  # type: ignore[list-item]


def test_folders_that_are_taken(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    Index.build(tmp_path / "index", ["a"], HashEncoder())
    for name, said in [
        ("full", "exists and is not empty"),
        ("file", "exists and is not empty"),
        ("file/inside", "is not writable"),
        ("index", "holds an index already. Add to it: tertium index add"),
    ]:
        with pytest.raises(TertiumError, match=said):
            Index.build(tmp_path / name, ["a"], HashEncoder())
    assert (tmp_path / "full" / "mine.txt").read_text() == "x"
    (tmp_path / "empty").mkdir()
    assert len(Index.build(tmp_path / "empty", ["a"], HashEncoder())) == 1


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("part", ["index.sqlite", "vectors", "graph"])
@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_damage_is_named(tmp_path: Path, part: str, damage: str) -> None:
    folder = tmp_path / "index"
    Index.build(folder, TEXTS, HashEncoder())
    (path,) = folder.glob(f"{part}*")
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
        said = "holds no index" if part == "index.sqlite" else f"{path.name} is missing. Restore"
        with pytest.raises(TertiumError, match=said):
            Index.open(folder)
        return
    changed = content.replace(b"text 3", b"test 3") if part == "index.sqlite" else b""
    path.write_bytes(content[:-4999] if damage == "short" else changed or content[:-9] + b"x" * 9)
    with pytest.raises(TertiumError, match=rf"{path.name} is damaged"):
        Index.open(folder).check()
    if damage == "short" and part != "index.sqlite":
        with pytest.raises(TertiumError, match=r"bytes instead of"):
            Index.open(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "it holds no manifest"),
        ("", "index.sqlite: the file: .* The index is damaged"),
        ("[]", "index.sqlite: the file: .* The index is damaged"),
        ('{"format": 2}', "index.sqlite: model: .* The index is damaged"),
        ('{"format": 9, "tertium": "7.0"}', "format 9 was written by tertium 7.0"),
    ],
)
def test_a_manifest_that_says_nothing(tmp_path: Path, content: str | None, said: str) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["a"], HashEncoder())
    rewrite(folder, content)
    with pytest.raises(TertiumError, match=said):
        Index.open(folder)


def rewrite(folder: Path, manifest: str | None) -> None:
    with contextlib.closing(sqlite3.connect(folder / "index.sqlite")) as connection:
        connection.execute("DELETE FROM manifest")
        if manifest is not None:
            connection.execute("INSERT INTO manifest VALUES (?)", (manifest,))
        connection.commit()


@pytest.mark.parametrize("content", [b"", b"not a database, and long enough to be one" * 99])
def test_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.sqlite").write_bytes(content)
    with pytest.raises(TertiumError, match="is damaged" if content else "holds no index"):
        Index.open(tmp_path)


def test_files_that_do_not_fit_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    index = Index.build(folder, ["a"], HashEncoder())
    rewrite(folder, index.manifest.model_copy(update={"rows": 2}).model_dump_json(by_alias=True))
    with pytest.raises(TertiumError, match="do not hold what its manifest says"):
        Index.open(folder)


def test_a_large_index_needs_usearch_before_it_encodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "EXACT_SEARCH", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    model = HashEncoder()
    with pytest.raises(TertiumError, match=r"tertium\[search\]"):
        Index.build(tmp_path / "index", ["a", "b"], model)
    assert model.seen == []


def test_an_open_index_stays_what_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    Index.build(folder, ["a"], HashEncoder())
    opened = Index.open(folder, HashEncoder())
    other = Index.open(folder, HashEncoder())
    other.add(["b", "c"])
    assert len(opened) == 1 and [hit.text for hit in opened.search("b")] == ["a"]
    assert opened.add(["d"]) == 1 and len(opened) == 4


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_full_disk_leaves_the_index_as_it_was(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    index = Index.build(tmp_path / "index", TEXTS[:20], HashEncoder(), dtype=dtype)
    before = files(tmp_path / "index")
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskFullError, match="index: no space left on this disk"):
        index.add(TEXTS[20:])
    assert files(tmp_path / "index") == before
    with pytest.raises(DiskFullError, match="new: no space left on this disk"):
        Index.build(tmp_path / "new", TEXTS, HashEncoder(), dtype=dtype)
    assert files(tmp_path) == {"index"}
    assert len(Index.open(tmp_path / "index", HashEncoder())) == 20
