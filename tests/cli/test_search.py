import json
import os
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.data.readers import read_rows
from tertium.data.rows import Pair
from tertium.data.tables import read_records
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration

TEXTS = ["the cat sleeps", "a b c", "the cat sleeps .", "dog barks", "a  b c", "x y z"]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(TEXTS) + "\n")
    lines = ["key\tsentence", *(f"k{number}\t{text}" for number, text in enumerate(TEXTS))]
    Path("texts.tsv").write_text("\n".join(lines) + "\n")
    return Path("texts.txt")


# index


def test_an_index_from_end_to_end(run: Run, tiny_bert: Path, texts: Path) -> None:
    ran = run("index", "build", texts, "-o", "index", "-m", tiny_bert)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "index: 6 texts, exact search\n"
    ran = run("index", "search", "index", "dog barks", "x y z", "--k", 2, "--json")
    assert (ran.code, ran.err) == (0, "")
    first, second = json.loads(ran.out)["queries"]
    assert first["query"] == "dog barks" and len(first["hits"]) == 2
    one = pytest.approx(1, abs=1e-5)
    assert first["hits"][0] == {"id": "4", "text": "dog barks", "score": one, "cosine": one}
    assert second["hits"][0]["id"] == "6"
    Path("more.txt").write_text("the dog\n")
    ran = run("index", "add", "index", "more.txt", "--json")
    added = json.loads(ran.out)
    assert (ran.code, added["added"], added["texts"], added["search"]) == (0, 1, 7, "exact")
    ran = run("index", "search", "index", "the dog", "--k", 1)
    assert ran.code == 0 and "1.000" in ran.out and " 7 " in ran.out
    ran = run("index", "stats", "index", "--check", "--json")
    stats = json.loads(ran.out)
    assert list(stats) == [
        *("index", "texts", "vectors", "dead", "dead_share", "columns", "model", "dtype"),
        *("search", "recall", "segments", "bytes", "checked"),
    ]
    assert stats["model"]["name"] == str(tiny_bert) and stats["recall"] is None
    shown = run("index", "stats", "index")
    assert shown.code == 0 and "fingerprint" in shown.out and "recall" not in shown.out


def test_ids_vectors_and_a_small_dtype(run: Run, tiny_bert: Path, texts: Path) -> None:
    assert run("encode", texts, "-o", "v.npy", "-m", tiny_bert).code == 0
    command = ["texts.tsv", "--id-column", "key", "--vectors", "v.npy", "--dtype", "int8"]
    ran = run("index", "build", *command, "-o", "index", "-m", tiny_bert, "--json")
    assert ran.code == 0, ran.err
    built = json.loads(ran.out)
    assert built["dtype"] == "int8" and built["recall"]["at"] == 5
    hits = json.loads(run("index", "search", "index", "dog barks", "--json").out)["queries"][0]
    assert hits["hits"][0]["id"] == "k3" and len(hits["hits"]) == 6
    ran = run("index", "add", "index", "texts.tsv", "--id-column", "key")
    assert ran.code == 2 and "The id 'k0' of text 1 is in index already" in ran.err


def test_an_index_that_one_can_live_with(run: Run, tiny_bert: Path, texts: Path) -> None:
    rows = [f"n{at},{text},{2000 + at},{'en' if at % 2 else 'de'}" for at, text in enumerate(TEXTS)]
    Path("t.csv").write_text("\n".join(["id,text,year,lang", *rows]) + "\n")
    built = run("index", "build", "t.csv", "--id-column", "id", "-o", "index", "-m", tiny_bert)
    assert built.code == 0, built.err
    where = ["--where", "year >= 2003 AND lang = 'en'"]
    ran = run("index", "search", "index", "dog barks", *where, "--json")
    (found,) = json.loads(ran.out)["queries"]
    assert [hit["id"] for hit in found["hits"]] == ["n3", "n5"]
    assert found["hits"][0]["columns"] == {"year": 2003, "lang": "en"}
    shown = run("index", "search", "index", "dog barks", *where, "--hybrid")
    assert "score" in shown.out and "year=2003, lang=en" in shown.out
    ran = run("index", "search", "index", "dog barks", *where, "-o", "hits.jsonl")
    assert json.loads(Path("hits.jsonl").read_text().splitlines()[0])["year"] == 2003
    Path("new.csv").write_text(
        f"id,text,year,lang\nn0,the bird,2000,de\nn1,{TEXTS[1]},2001,en\nx,a new one,1999,fr\n"
    )
    ran = run("index", "update", "index", "new.csv", "--json")
    assert json.loads(ran.out)["update"] == {"added": 1, "changed": 1, "columns": 0, "same": 1}
    ran = run("index", "update", "index", "--where", "year < 2000", "--set", "lang=it", "--json")
    assert json.loads(ran.out)["update"]["columns"] == 1
    Path("short.csv").write_text("id,text\nn3,another\n")
    assert "1 changed" in run("index", "update", "index", "short.csv").err
    found = run("index", "search", "index", "another", "--where", "id = 'n3'", "--json")
    hits = json.loads(found.out)["queries"][0]["hits"]
    assert hits[0]["columns"] == {"year": 2003, "lang": "en"}  # what the file does not have stays
    Path("empty.csv").write_text("id,text\nn1,the same\nn3, \n")
    ran = run("index", "update", "index", "empty.csv")
    assert ran.code == 2 and "empty.csv:3: the text is empty; to delete it: tertium in" in ran.err
    found = run("index", "search", "index", "a", "--where", "text = 'the same'", "--json")
    assert json.loads(found.out)["queries"][0]["hits"] == []  # nothing was changed
    ran = run("index", "delete", "index", "n4", "nobody", "--json")
    assert json.loads(ran.out)["deleted"] == 1 and "not in index: 'nobody'" in ran.err
    Path("ids.txt").write_text("n2\n")
    assert "1 text deleted, 5 left" in run("index", "delete", "index", "--ids", "ids.txt").err
    ran = run("index", "delete", "index", "--where", "lang = 'it'")
    assert "1 text deleted, 4 left" in ran.err and "are dead" in ran.err
    stats = json.loads(run("index", "stats", "index", "--json").out)
    assert (stats["texts"], stats["vectors"], stats["dead"]) == (4, 9, 5)
    ran = run("index", "compact", "index", "--json")
    assert json.loads(ran.out)["dead"] == 0
    ran = run("index", "export", "index", "-o", "out.parquet", *where, "--json")
    assert json.loads(ran.out)["rows"] == 2
    for command, said in [
        (["search", "index", "a", "--where", "yeer = 1"], "Did you mean 'year'"),
        (["delete", "index"], "Say which texts"),
        (["update", "index", "new.csv", "--where", "year = 1"], "Give a table of texts, or"),
        (["export", "index", "-o", "x", "--to", "csv"], "No format 'csv'"),
        (["update", "index", "--where", "year = 1", "--set", "x"], "write name=value"),
        (
            ["update", "index", "--where", "year = 1", "--set", "id=7"],
            "The id of a text is not a f",
        ),
        (["update", "index", "--where", "year = 1", "--set", "Text=a"], "index update INDEX FILE"),
    ]:
        ran = run("index", *command)
        assert ran.code == 2 and said in ran.err, ran.err


def test_a_file_of_queries(run: Run, tiny_bert: Path, texts: Path) -> None:
    run("index", "build", texts, "-o", "index", "-m", tiny_bert)
    ran = run("index", "search", "index", "--queries", texts, "-o", "found.jsonl", "--k", 2)
    assert ran.code == 0 and "hits for 6 queries" in ran.err
    rows = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
    assert [(row["query"], row["rank"]) for row in rows[:3]] == [
        (TEXTS[0], 1),
        (TEXTS[0], 2),
        (TEXTS[1], 1),
    ]
    assert len(rows) == 12
    strict = ["--threshold", "0.99999", "--column", "key", "--json"]
    ran = run("index", "search", "index", "--queries", "texts.tsv", "-o", "found.tsv", *strict)
    assert json.loads(ran.out)["queries"] == 6


# mine


def test_mined_pairs_are_a_file_of_pairs(run: Run, tiny_bert: Path, texts: Path) -> None:
    options = ["--threshold", "-1", "--top-k", 5, "-m", tiny_bert]
    ran = run("mine", texts, "-o", "pairs.tsv", *options, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {
        "output": "pairs.tsv",
        "texts": 6,
        "repeats": 1,
        "pairs": 10,
        "threshold": -1.0,
        "decision": None,
        "top_k": 5,
        "method": "exact",
    }
    rows = read_rows(Path("pairs.tsv"), Pair)
    scores = [row.score for row in rows]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    expected = tertium.load(tiny_bert).score([(row.sentence1, row.sentence2) for row in rows])
    np.testing.assert_allclose(scores, expected, atol=2e-6)
    ran = run("mine", "texts.tsv", "-o", "pairs.csv", *options, "--id-column", "key", "--limit", 1)
    assert "1 pair from 6 texts, 1 of them repeated" in ran.err
    assert Path("pairs.csv").read_text().splitlines()[0] == "sentence1,sentence2,similarity,id1,id2"
    ran = run("mine", texts, "-o", "graph.tsv", *options, "--method", "hnsw")
    assert ran.code == 0
    assert Path("graph.tsv").read_text() == Path("pairs.tsv").read_text()


# dedupe


def test_dedupe_says_what_went_and_why(run: Run, tiny_bert: Path, texts: Path) -> None:
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 0.1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 1.0]])
    np.save("v.npy", vectors)
    ran = run(
        *("dedupe", "texts.tsv", "-o", "clean.tsv", "--report", "gone.jsonl"),
        *("--vectors", "v.npy", "--id-column", "key", "--json"),
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out) == {
        "output": "clean.tsv",
        "report": "gone.jsonl",
        "texts": 6,
        "kept": 4,
        "dropped": {"same": 1, "near": 1},
        "share": 0.3333,
        "groups": 2,
        "threshold": 0.9,
        "decision": None,
        "method": "exact",
    }
    assert Path("clean.tsv").read_text().splitlines() == [
        "key\tsentence",
        *(f"k{number}\t{TEXTS[number]}" for number in (0, 1, 3, 5)),
    ]
    near, same = (json.loads(line) for line in Path("gone.jsonl").read_text().splitlines())
    assert near == {
        "id": "k2",
        "text": "the cat sleeps .",
        "reason": "near",
        "kept_id": "k0",
        "kept_text": "the cat sleeps",
        "similarity": pytest.approx(1 / 1.01**0.5),
    }
    assert (same["id"], same["reason"], same["kept_id"], same["similarity"]) == (
        *("k4", "same", "k1"),
        1.0,
    )
    again = run("dedupe", "clean.tsv", "-o", "again.tsv", "--exact-only")
    assert again.code == 0 and Path("again.tsv").read_text() == Path("clean.tsv").read_text()
    ran = run("dedupe", texts, "-o", "clean.txt", "-m", tiny_bert, "--threshold", 0.999)
    assert ran.code == 0 and "removed 1 exact and" in ran.err


def test_dedupe_in_other_ways(run: Run, texts: Path) -> None:
    np.save(
        "v.npy", np.array([[1, 0, 0], [0, 1, 0], [1, 0.1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 1.0]])
    )
    given = ["--vectors", "v.npy"]
    ran = run("dedupe", texts, *given, "--dry-run", "--groups", "g.tsv", "--outliers", "o.tsv")
    assert ran.code == 0 and "keeps 4 of 6 texts; would remove 1 exact and 1 near" in ran.err
    assert "33% of the texts" in ran.err and "--keep-different" in ran.err
    assert not Path("clean.txt").exists()
    lines = [line.split("\t")[:3] for line in Path("g.tsv").read_text().splitlines()]
    assert lines[1:] == [
        ["1", "representative", "1"],
        ["1", "member", "3"],
        ["2", "representative", "2"],
        ["2", "member", "5"],
    ]
    assert Path("o.tsv").read_text().splitlines()[1].split("\t")[0] == "4"
    ran = run("dedupe", texts, *given, "-o", "a.txt", "--to", 3, "--json")
    assert json.loads(ran.out)["kept"] == 3 and len(Path("a.txt").read_text().splitlines()) == 3
    for floor, code in (("0.5", 0), ("0.4", 2)):
        options = ["--candidates", "c.npz", "--floor", "0.5", "--threshold", floor]
        ran = run("dedupe", texts, *given, "-o", "b.txt", *options)
        assert ran.code == code
        given = []  # the second time without any vectors
    assert "reach down to 0.5, not to 0.4" in ran.err
    Path("test.txt").write_text("dog  barks\n")
    ran = run("dedupe", texts, "--against", "test.txt", "--exact-only", "-o", "c.txt", "--json")
    assert json.loads(ran.out)["dropped"] == {"same": 1, "near": 0}
    assert "dog" not in Path("c.txt").read_text()
    for wrong, said in [
        (["-o", "d.txt", "--to", 3, "--exact-only"], "exclude each other"),
        (["-o", "test.txt", "--against", "test.txt"], "test.txt is named twice"),
        (["--dry-run", "--candidates", "d.tsv"], "must be a .npz file"),
        ([], "--output FILE, or --dry-run"),
        (["--dry-run", "--exact-only", "--keep-different", "("], "not a regular expression"),
    ]:
        ran = run("dedupe", texts, *wrong)
        assert ran.code == 2 and said in ran.err


def test_exact_only_loads_no_model(run: Run, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tertium.engines.loading.load_embedder", None)
    ran = run("dedupe", texts, "-o", "clean.txt", "--exact-only", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["kept"], found["threshold"], found["method"]) == (5, None, None)
    assert Path("clean.txt").read_text().splitlines() == TEXTS[:4] + TEXTS[5:]


# cluster


def test_clusters_and_loners(run: Run, texts: Path) -> None:
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 0.1, 0], [0, 0, 1], [1, 0.05, 0], [0, 0.1, 1]])
    np.save("v.npy", vectors)
    command = ["cluster", texts, "-o", "c.tsv", "--vectors", "v.npy"]
    ran = run(*command, "--min-size", 2, "--threshold", 0.9, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert (found["texts"], found["alone"]) == (6, 1)
    assert [group["size"] for group in found["clusters"]] == [3, 2]
    assert found["clusters"][0]["centre"].keys() == {"id", "text"}
    rows = [line.split("\t") for line in Path("c.tsv").read_text().splitlines()]
    assert rows[0] == ["cluster", "id", "text", "similarity", "name"]
    assert [row[0] for row in rows[1:]] == ["1", "1", "1", "2", "2", "0"]
    assert {row[1] for row in rows[1:4]} == {"1", "3", "5"} and rows[6][1:] == [
        "2",
        "a b c",
        "",
        "",
    ]
    assert rows[1][4] == found["clusters"][0]["name"] == "cat, sleeps, the"
    keyed = ["cluster", "texts.tsv", "-o", "d.tsv", "--vectors", "v.npy", "--min-size", 2]
    assert run(*keyed).code == 0
    assert Path("d.tsv").read_text().splitlines()[0].endswith("\tname\tkey")
    shown = run(*command, "--k", 2)
    assert shown.code == 0 and "most typical text" in shown.out and "words" in shown.out
    assert "6 of 6 texts in 2 clusters" in shown.err


def test_fewer_groups_than_asked_for_are_told(run: Run, texts: Path) -> None:
    np.save("v.npy", np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0], [0, 1.0]]))
    ran = run("cluster", texts, "-o", "c.tsv", "--vectors", "v.npy", "--k", 5, "--json")
    assert ran.code == 0 and len(json.loads(ran.out)["clusters"]) == 2
    assert "2 groups instead of 5: the others stayed empty" in ran.err


# stored vectors


@pytest.mark.parametrize("command", ["mine", "dedupe", "cluster", "index build", "index add"])
def test_vectors_of_other_texts_are_refused(
    run: Run, tiny_bert: Path, texts: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tertium.jobs.workers.START_METHOD", "fork")
    assert run("encode", texts, "-o", "v/", "-m", tiny_bert, "--workers", 1).code == 0
    Path("turned.txt").write_text("\n".join([*TEXTS[:4], TEXTS[5], TEXTS[4]]) + "\n")
    if command == "index add":
        assert run("index", "build", texts, "-o", "index", "-m", tiny_bert).code == 0
        target = ["index", "turned.txt"]
    else:
        target = ["turned.txt", "-o", "out" if command == "index build" else "out.tsv"]
    ran = run(*command.split(), *target, "--vectors", "v", *(["-m", tiny_bert]))
    assert (ran.code, ran.out) == (2, "")
    assert "vector 5 is that of 'a  b c', and text 5 is 'x y z'" in ran.err
    assert not list(Path.cwd().glob("out*"))
    target[target.index("turned.txt")] = "texts.txt"
    ran = run(*command.split(), *target, "--vectors", "v", *(["-m", tiny_bert]))
    assert ran.code == 0, ran.err


# mistakes


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("index build nothing.txt -o out -m BERT", "nothing.txt: no such file"),
        ("index build empty.txt -o out -m BERT", "no rows"),
        ("index build texts.txt -o out -m BERT --dtype int4", "No dtype 'int4'"),
        ("index build texts.txt -o out -m BERT --id-column key", "needs an id in column key"),
        ("index build texts.tsv -o out -m BERT --id-column twice", "column twice"),
        ("index build texts.txt -o out -m BERT --vectors wide.npy", "do not fit 6 texts"),
        ("index build texts.txt -o full -m BERT", "full exists and is not empty"),
        ("index build texts.txt", "Usage"),
        ("index add full texts.txt", "full holds no index"),
        ("index search full a", "full holds no index"),
        ("index search full", "Give texts to look for"),
        ("index search full a --queries texts.txt", "Give texts to look for"),
        ("index search full --queries texts.txt", "need a place: --output"),
        ("index search full a -o out.md", "out.md: the output must be"),
        ("index search full a --k 0", "Invalid value"),
        ("index search full a --threshold nan", "from -1 to 1, not nan"),
        ("index search full a --threshold 7", "from -1 to 1, not 7"),
        ("index search full --queries texts.tsv -o texts.tsv", "texts.tsv is named twice"),
        ("mine texts.tsv -o texts.tsv", "texts.tsv is named twice"),
        ("mine texts.txt -o texts.txt/out.tsv", "cannot be written"),
        ("mine full -o out.tsv", "full: is a folder, not a file"),
        ("mine pipe.txt -o out.tsv", "pipe.txt is a pipe or a device"),
        ("dedupe texts.txt -o ./texts.txt", "texts.txt is named twice"),
        ("dedupe texts.txt -o out.tsv --report out.tsv", "out.tsv is named twice"),
        ("dedupe texts.txt -o out.tsv --report texts.tsv/r.tsv", "cannot be written"),
        ("cluster texts.tsv -o texts.tsv", "texts.tsv is named twice"),
        ("cluster texts.txt -o texts.txt/out.tsv", "cannot be written"),
        ("score texts.tsv -o texts.tsv", "texts.tsv is named twice"),
        ("score texts.tsv -o texts.txt/out.tsv", "cannot be written"),
        ("encode in.parquet -o in.parquet", "in.parquet is named twice"),
        ("index stats nothing", "nothing holds no index"),
        ("mine texts.txt -o out.txt", "out.txt: the output must be"),
        ("mine texts.txt -o out.tsv --threshold 2", "from -1 to 1, not 2"),
        ("mine texts.txt -o out.tsv --top-k 0", "Invalid value"),
        ("mine texts.txt -o out.tsv --method fast", "No method 'fast'"),
        ("mine texts.txt -o out.tsv --vectors wide.npy", "3 vectors for 6 texts"),
        ("mine texts.txt -o out.tsv --vectors nothing.npy", "nothing.npy: no such file"),
        ("mine texts.txt -o out.tsv -m ./nothing", "no folder"),
        ("mine texts.txt -o out.tsv -m BERT --engine steam", "No engine 'steam'"),
        ("dedupe texts.txt -o out.txt -m BERT --engine steam", "No engine 'steam'"),
        ("cluster texts.txt -o out.tsv -m BERT --engine steam", "No engine 'steam'"),
        ("index build texts.txt -o out -m BERT --engine steam", "No engine 'steam'"),
        ("dedupe texts.txt -o out.md", "out.md: the output must be a .txt, .tsv, .csv or .jsonl"),
        ("dedupe texts.txt -o out.txt --report out.md", "out.md: the output must be"),
        ("dedupe texts.tsv -o out.txt --column nothing --exact-only", "column nothing"),
        ("dedupe empty.txt -o out.txt --exact-only", "no rows"),
        ("cluster texts.txt -o out.tsv --k 7 --vectors six.npy", "6 texts cannot be put into 7"),
        ("cluster texts.txt -o out.tsv --min-size 0", "Invalid value"),
        ("cluster texts.txt -o out.xml", "out.xml: the output must be"),
    ],
)
@pytest.mark.usefixtures("texts")
def test_mistakes_leave_nothing_behind(run: Run, tiny_bert: Path, command: str, said: str) -> None:
    Path("empty.txt").write_text("")
    np.save("wide.npy", np.ones((3, 4)))
    np.save("six.npy", np.ones((6, 4)))
    os.mkfifo("pipe.txt")
    Path("in.parquet").touch()
    before = [Path(name).read_bytes() for name in ("texts.txt", "texts.tsv")]
    Path("full").mkdir()
    Path("full/mine.txt").write_text("x")
    ran = run(*(tiny_bert if word == "BERT" else word for word in command.split()))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and "Traceback" not in ran.err
    assert not [path for path in Path.cwd().iterdir() if path.name.startswith("out")]
    assert [path.name for path in Path("full").iterdir()] == ["mine.txt"]
    assert [Path(name).read_bytes() for name in ("texts.txt", "texts.tsv")] == before


def test_another_model_is_refused(
    run: Run, tiny_bert: Path, tiny_roberta: Path, texts: Path
) -> None:
    run("index", "build", texts, "-o", "index", "-m", tiny_bert)
    for command in (["search", "index", "a"], ["add", "index", texts]):
        ran = run("index", *command, "--engine", "steam")
        assert (ran.code, ran.out) == (2, "") and "No engine 'steam'" in ran.err
        ran = run("index", *command, "-m", tiny_roberta)
        assert (ran.code, ran.out) == (2, "")
        assert "has other weights or settings. Name the model that it was built with" in ran.err


# spreadsheets

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "plain", "-5"]
SAFE = ["'=cmd|' /C calc'!A0", "'+1+1", "'-1+1", "'@SUM(A1)", "plain", "-5"]


@pytest.mark.parametrize(("ending", "raw"), [("tsv", False), ("csv", True), ("csv", False)])
@pytest.mark.parametrize(
    ("command", "column"),
    [
        (("mine", "texts.txt", "--threshold", -1, "-m", "MODEL", "-o"), "sentence1"),
        (("cluster", "texts.txt", "--k", 1, "-m", "MODEL", "-o"), "text"),
        (("dedupe", "texts.txt", "--exact-only", "-o", "kept.txt", "--report"), "text"),
        (("index", "search", "index", "--queries", "texts.txt", "-o"), "query"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_no_cell_is_a_formula(
    command: tuple[object, ...],
    column: str,
    ending: str,
    raw: bool,
    run: Run,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(FORMULAS * 2) + "\n")
    run("index", "build", "texts.txt", "-o", "index", "-m", tiny_bert)
    arguments = [tiny_bert if argument == "MODEL" else argument for argument in command]
    ran = run(*arguments, f"out.{ending}", *(["--raw-cells"] if raw else []))
    assert ran.code == 0, ran.err
    found = {record.values[column] for record in read_records(Path(f"out.{ending}"))}
    assert found <= {*(FORMULAS if raw else SAFE)} and len(found) > 3
    if command[0] == "dedupe":  # data stay what they were
        assert Path("kept.txt").read_text() == "\n".join(FORMULAS) + "\n"
