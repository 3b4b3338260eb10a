"""Any sequence of changes gives the answers of a dictionary and brute force."""

import os
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertium.corpus import Index, Updated, WhereError, write
from tertium.corpus.rows import unit
from tertium.corpus.snapshot import fuse
from tertium.errors import TertiumError, TertiumWarning
from tests.fakes import HashEncoder

IDS = st.sampled_from([str(n) for n in range(12)])
WORDS = st.sampled_from(["cat", "dog", "bird", "fish", "ant", "bee"])
CHANGES = st.one_of(
    st.tuples(st.just("update"), st.dictionaries(IDS, WORDS, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.lists(IDS, max_size=5, unique=True)),
    st.tuples(st.just("where"), WORDS),
    st.tuples(st.just("set"), WORDS),
    st.tuples(st.just("compact"), st.none()),
)


@settings(max_examples=40)
@given(changes=st.lists(CHANGES, max_size=8), query=WORDS)
def test_as_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, Any]], query: str
) -> None:
    model, folder = HashEncoder(), tmp_path_factory.mktemp("drawn") / "index"
    texts = {"a": "first", "b": "second"}
    fields: dict[str, dict[str, Any]] = {name: {"word": text} for name, text in texts.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "EXACT_SEARCH", 6)
        index = Index.build(
            folder, texts.values(), model, ids=texts, columns=fields.values(), progress=False
        )
        for kind, value in changes:
            if kind == "update":
                model.seen.clear()
                found = index.update(
                    value.values(), ids=value, columns=[{"word": word} for word in value.values()]
                )
                new = [name for name in value if name not in texts]
                other = [name for name in value if name in texts and texts[name] != value[name]]
                assert (found.added, found.changed) == (len(new), len(other))
                assert sorted(model.seen) == sorted(value[name] for name in (*new, *other))
                texts |= value
                for name, word in value.items():
                    fields[name] = fields.get(name, {}) | {"word": word}
            elif kind == "delete":
                here = [name for name in value if name in texts]
                told = pytest.warns(TertiumWarning) if len(here) < len(value) else nullcontext()
                with told:
                    assert index.delete(value) == len(here)
                for name in here:
                    del texts[name], fields[name]
            elif kind == "where":
                gone = [name for name in texts if fields[name]["word"] == value]
                assert index.delete(where=f"word = '{value}'") == len(gone)
                for name in gone:
                    del texts[name], fields[name]
            elif kind == "set":
                here = [name for name in texts if fields[name]["word"] == value]
                assert index.set_columns({"seen": 1}, where=f"word = '{value}'") == len(here)
                for name in here:
                    fields[name]["seen"] = 1
            else:
                index.compact(progress=False)
                assert index.manifest.dead == 0 and len(index.manifest.segments) <= 1
    index.check()
    assert {entry.id: entry.text for entry in index} == texts
    assert {entry.id: entry.columns for entry in index} == fields
    for where, right in [
        (None, lambda name: True),
        ("seen = 1", lambda name: "seen" in fields[name]),
        ("seen IS NULL AND text != 'cat'", lambda n: "seen" not in fields[n] and texts[n] != "cat"),
    ]:
        names = [name for name in texts if right(name)]
        vectors = unit(model.encode([texts[name] for name in names]))
        cosines = np.sort((unit(model.encode([query])) @ vectors.T)[0])[::-1]
        if where is None or "seen" in index.manifest.columns:
            hits = index.search(query, top_k=4, where=where)
            np.testing.assert_allclose([hit.score for hit in hits], cosines[:4], atol=1e-5)
            assert {hit.id for hit in hits} <= set(names)
            worded = {hit.id for hit in index.search(query, top_k=99, where=where, hybrid=True)}
            assert worded == set(names)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    texts = [f"text {at}" for at in range(30)]
    columns = [
        {"year": 2000 + at, "lang": "de" if at % 3 else "en", "price": f"{at}.50", "zip": f"0{at}"}
        for at in range(30)
    ]
    columns[7] |= {"note": 'O\'Brien "x"', "ok": True}
    columns[8] |= {"Note ": None, "tags": ["a", "b"], "ok": "false"}
    return Index.build(tmp_path / "index", texts, HashEncoder(), columns=columns)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("year >= 2028", [28, 29]),
        ("year > 2027.5 AND lang = 'de'", [28, 29]),
        ("lang = 'en' AND NOT year < 2025", [27]),
        ("year IN (2001, 2003) OR id = '6'", [1, 3, 5]),
        ("year NOT BETWEEN 2002 AND 2028", [0, 1, 29]),
        ("price = 3.5", [3]),
        ("price = '3.50'", [3]),
        ("price = '3.5'", []),
        ("zip = '01'", [1]),
        ("zip = '1'", []),
        ("zip = 1", [1]),
        ("note = 'O''Brien \"x\"'", [7]),
        ("note LIKE 'o''b%'", [7]),
        ("note IS NOT NULL", [7]),
        ("ok = TRUE", [7]),
        ("ok = false", [8]),
        ("ok IS NULL AND (year <= 2000 OR year = 2009)", [0, 9]),
        ('"year" == 2004 or `YEAR` <> 2004 and year < 2001', [0, 4]),
        ("text LIKE '%29'", [29]),
        ('tags = \'["a", "b"]\'', [8]),
        ("year > 1e3", list(range(30))),
        ("year < -1", []),
        ("lang > 5", []),
        ("year = 99999999999999999999999", []),
    ],
)
def test_filters(index: Index, where: str, rows: list[int]) -> None:
    assert [entry.text for entry in index.entries(where)] == [f"text {row}" for row in rows]
    hits = index.search("text 3", top_k=30, where=where)
    assert sorted(int(hit.id) - 1 for hit in hits) == rows


@pytest.mark.parametrize(
    "where",
    [
        "",
        "year",
        "year = ",
        "= 3",
        "year = 3 AND",
        "year = 2000; DROP TABLE texts",
        "year = 2000 --",
        "1 = 1",
        "'a' = 'a'",
        "yeer = 3",
        "texts.number = 1",
        "sqlite_version() = 1",
        "year = (SELECT 1)",
        "id IN (SELECT id FROM texts)",
        "lang = 'x' UNION SELECT 1",
        "lang = 'x",
        "year = lang",
        "year LIKE 3",
        "year IS 3",
        "year BETWEEN 1 OR 2",
        '"x"" OR 1=1" = 3',
        "year = 2000 /* x */",
        "(" * 60 + "year = 1" + ")" * 60,
        " OR ".join(["year = 1"] * 201),
        "year = 1 " + " " * 5000,
        "year = ?",
        "year = \0",
    ],
)
def test_no_filters(index: Index, where: str) -> None:
    for ask in (lambda: index.search("a", where=where), lambda: index.delete(where=where)):
        with pytest.raises(WhereError):
            ask()
    assert len(Index.open(index.folder)) == 30


@given(text=st.text(max_size=40) | st.text("()'\"`=<>!,;-._ \0aANDORTyear019", max_size=30))
def test_any_filter_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SHARED
    if _SHARED is None:
        folder = tmp_path_factory.mktemp("shared") / "index"
        _SHARED = Index.build(folder, ["a", "b"], HashEncoder(), columns=[{"year": 1}, {}])
    try:
        assert {entry.text for entry in _SHARED.entries(text)} <= {"a", "b"}
    except WhereError as error:
        assert str(error)


_SHARED: Index | None = None


def test_filtered_by_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever share a filter leaves, k results come back, and they are the right ones."""
    monkeypatch.setattr(write, "EXACT_SEARCH", 500)
    model = HashEncoder(dimension=8)
    texts = [f"text {at}" for at in range(2000)]
    index = Index.build(
        tmp_path / "index", texts, model, columns=[{"at": at} for at in range(2000)]
    )
    assert index.manifest.graph is not None
    index.delete([str(at) for at in range(1, 200)])
    vectors, queries = unit(model.encode(texts)), [f"query {at}" for at in range(20)]
    for low, high in [(0, 2000), (0, 1500), (900, 1000), (199, 204), (1995, 2000), (0, 100)]:
        allowed = np.arange(max(low, 199), high)
        where = f"at >= {low} AND at < {high}"
        found = index.search_many(queries, top_k=10, where=where)
        scores = unit(model.encode(queries)) @ vectors[allowed].T
        right = 0
        for hits, row in zip(found, scores, strict=True):
            wanted = np.sort(row)[::-1][:10]
            assert len(hits) == len(wanted)
            right += np.isclose([hit.score for hit in hits], wanted, atol=1e-5).sum()
        assert right >= 0.99 * sum(map(len, found))


def test_fusion_by_hand(tmp_path: Path) -> None:
    lists = [[3, 1, 2], [2, 4]]
    expected = {2: 1 / 63 + 1 / 61, 3: 1 / 61, 1: 1 / 62, 4: 1 / 62}
    assert fuse(lists) == [(2, expected[2]), (3, expected[3]), (1, 1 / 62), (4, 1 / 62)]
    texts = ["alpha beta", "gamma delta", "the alpha", "the gamma", "the omega", "the"]
    index = Index.build(tmp_path / "index", texts, HashEncoder())
    plain = [hit.id for hit in index.search("alpha", top_k=6)]
    worded = ["3", "1"]  # both hold it once; the shorter text first, of equals the earlier
    hits = index.search("alpha", top_k=6, hybrid=True)
    order = index._snapshot.find_words("alpha", None, 10)
    assert sorted(map(str, order)) == sorted(worded)
    wanted = fuse([[int(name) for name in plain], order])
    assert [(hit.id, hit.score) for hit in hits] == [(str(n), score) for n, score in wanted]
    assert all(hit.cosine is not None for hit in hits)
    for odd in ["", '"', "the", "NOT alpha OR (", "alpha*", "naïve 日本", "a" * 3000]:
        assert len(index.search(odd, top_k=6, hybrid=True)) == 6


def test_updates_say_what_they_did(index: Index) -> None:
    texts = ["text 0", "other", "text 2", "new"]
    before = index.get("2")
    columns = [{"year": 2000}, {}, {"year": 1, "lang": None, "never": None}, {}]
    found = index.update(texts, ids=["1", "2", "3", "x"], columns=columns)
    assert found == Updated(added=1, changed=1, columns=1, same=1)
    second, third = index.get("2"), index.get("3")
    assert before is not None and before.columns
    assert second is not None and (second.text, second.columns) == ("other", before.columns)
    assert third is not None and third.columns["year"] == 1
    assert "lang" not in third.columns and "zip" in third.columns
    assert "never" not in index.manifest.columns
    assert index.set_columns({"zip": None}, where="id = '3'") == 1
    third = index.get("3")
    assert third is not None and "zip" not in third.columns
    assert index.update(["text 0 "], ids=["1"]) == Updated(changed=1)
    kept = index.get("1")
    assert kept is not None and kept.columns["lang"] == "en"
    with pytest.raises(TertiumError, match="'1' occurs twice, for texts 1 and 2"):
        index.update(["a", "b"], ids=["1", "1"])
    with pytest.raises(TertiumError, match="as many ids as texts"):
        index.update(["a", "b"], ids=["1"])
    with pytest.raises(TertiumError, match="Text 2, with the id '4', is empty"):
        index.update(["a", " \n"], ids=["1", "4"])
    assert [hit.id for hit in index.search("new", top_k=1)] == ["x"]
    assert "text 1" not in {entry.text for entry in index}
    with pytest.warns(TertiumWarning, match="1 text is empty. Any query can find an empty text"):
        index.add(["", "b"])


def test_deleting_what_is_not_there(index: Index) -> None:
    with pytest.warns(TertiumWarning, match="2 ids are not in .*index: 'x', 'ü'"):
        assert index.delete(["x", "3", "ü", "3"]) == 1
    assert index.delete(where="year > 9999") == 0
    assert "3" not in index and "4" in index and 4 not in index
    for wrong in ({}, {"ids": ["1"], "where": "year = 1"}):
        with pytest.raises(TertiumError, match="by their ids, or by a filter"):
            index.delete(**wrong)
    assert index.delete(where="year >= 0") == 29
    assert len(index) == 0 and index.search("a") == [] and index.search("a", hybrid=True) == []
    index.compact()
    index.check()
    assert index.search("a") == [] and list(index) == []
    assert index.add(["back"]) == 1 and index.search("back")[0].id == "31"


def test_compacting_gives_space_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "EXACT_SEARCH", 100)
    texts = [f"text {at} " + "x" * 200 for at in range(400)]
    for dtype in ("float32", "int8"):
        index = Index.build(tmp_path / dtype, texts, HashEncoder(dimension=64), dtype=dtype)
        index.delete([str(at) for at in range(1, 301)])
        assert (index.manifest.dead, index.manifest.rows) == (300, 400)
        before = index.search_many(texts[300:320], top_k=5)
        saved = index.compact()
        assert saved > 300 * (64 if dtype == "int8" else 256)
        assert (index.manifest.dead, index.manifest.rows, len(index)) == (0, 100, 100)
        assert index.manifest.graph is not None and index.manifest.graph.count == 100
        index.check()
        for old, new in zip(before, index.search_many(texts[300:320], top_k=5), strict=True):
            assert old[0].id == new[0].id
        assert index.compact() == 0


def test_columns_that_cannot_be(tmp_path: Path, index: Index) -> None:
    with pytest.raises(TertiumError, match="at most 500 columns"):
        index.add(["a"], columns=[{f"c{at}": 1 for at in range(501)}])
    with pytest.raises(TertiumError, match="as many rows of columns as texts"):
        index.add(["a", "b"], columns=[{}])
    odd = {'a "b" c': 2**70, "number": float("nan"), "first": "\ud800", "x;--": {"y": None}}
    index.add(["odd"], columns=[odd], ids=["odd"])
    found = index.get("odd")
    assert found is not None
    assert found.columns == {'a "b" c': str(2**70), "first": "\ud800", "x;--": '{"y": null}'}
    assert [entry.id for entry in index.entries('"a ""b"" c" IS NOT NULL')] == ["odd"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_a_folder_that_may_only_be_read(index: Index) -> None:
    folder = index.folder
    del index
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert Index.open(folder, HashEncoder()).search("text 3", top_k=1)[0].id == "4"
    finally:
        folder.chmod(stat.S_IRWXU)


def test_an_index_of_the_format_before_is_converted(tmp_path: Path) -> None:
    saved = Path(__file__).parents[1] / "fixtures" / "saved" / "index"
    folder = Path(shutil.copytree(saved, tmp_path / "index"))
    lines = "".join(path.read_text() for path in folder.rglob("texts.jsonl")).splitlines()
    with pytest.warns(TertiumWarning, match=r"was converted: its \d+ texts are in index.sqlite"):
        index = Index.open(folder)
    index.check()
    assert len(index) == len(lines)
    assert not list(folder.rglob("*.json*")) and not list(folder.rglob("offsets.npy"))
    vectors = index._snapshot.rows.block(0, len(index))
    again = Index.open(folder)  # without a word
    again.delete([next(iter(again)).id])
    again.compact()
    assert not list(folder.glob("segment-*"))
    np.testing.assert_array_equal(again._snapshot.rows.block(0, 99), vectors[1:])
