import csv
import gzip
import json
from pathlib import Path

import pytest

from tertium.corpus.inputs import read_corpus, table, write_kept
from tertium.data.tables import DataError
from tertium.errors import TertiumError

ROWS = [("one\ttwo", 0.5, None), ('she said "no", twice', 1.0, 3), ("üñí 🙂", -0.25, 0)]


def test_rows_are_numbered_or_named(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("Key\tText\na\tone\nb\ttwo\n")
    assert read_corpus(path) == (["one", "two"], ["1", "2"])
    assert read_corpus(path, id_column=" KEY ") == (["one", "two"], ["a", "b"])
    assert read_corpus(path, column="key") == (["a", "b"], ["1", "2"])
    lines = tmp_path / "texts.txt.gz"
    lines.write_bytes(gzip.compress(b"one\n\ntwo\n"))
    assert read_corpus(lines) == (["one", "", "two"], ["1", "2", "3"])
    numbers = tmp_path / "texts.jsonl"
    numbers.write_text('{"id": 7, "text": "one"}\n{"id": 8, "text": "two"}\n')
    assert read_corpus(numbers, id_column="id")[1] == ["7", "8"]


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        ("id\ttext\na\tone\na\ttwo\n", TertiumError, "'a' occurs twice, in rows 1 and 2"),
        ("id\ttext\na\tone\n \ttwo\n", DataError, "needs an id in column id"),
        ("key\ttext\na\tone\n", DataError, "needs an id in column id; found: key, text"),
        ("id\ttext\n", DataError, "no rows"),
    ],
)
def test_ids_that_are_none(
    tmp_path: Path, content: str, error: type[TertiumError], said: str
) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text(content)
    with pytest.raises(error, match=said):
        read_corpus(path, id_column="id")


def test_tables_by_their_ending(tmp_path: Path) -> None:
    for ending in (".tsv", ".csv", ".jsonl"):
        with table(tmp_path / f"new/t{ending}", ("text", "score", "note")) as write:
            for row in ROWS:
                write(row)
    lines = (tmp_path / "new/t.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["text\tscore\tnote", "one two\t0.500000\t"]
    with (tmp_path / "new/t.csv").open(encoding="utf-8", newline="") as stream:
        read = list(csv.reader(stream))
    assert read[1] == ["one\ttwo", "0.500000", ""] and read[2][0] == ROWS[1][0]
    records = (tmp_path / "new/t.jsonl").read_text(encoding="utf-8").splitlines()
    assert [tuple(json.loads(line).values()) for line in records] == ROWS


def test_a_table_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    with pytest.raises(RuntimeError), table(path, ("a",)) as write:
        write(("x",))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(TertiumError, match=r"t.md: the output must be a .tsv, .csv or .jsonl"),
        table(tmp_path / "t.md", ("a",)),
    ):
        pass


def test_kept_rows_keep_their_columns(tmp_path: Path) -> None:
    source = tmp_path / "in.tsv"
    source.write_text("Text\tn\none\t1\ntwo\t2\nthree\t\n")
    for ending, expected in {
        ".txt": "one\nthree\n",
        ".tsv": "Text\tn\none\t1\nthree\t\n",
        ".csv": "Text,n\r\none,1\r\nthree,\r\n",
        ".jsonl": '{"Text": "one", "n": "1"}\n{"Text": "three", "n": ""}\n',
    }.items():
        write_kept(source, tmp_path / f"out{ending}", [0, 2], column=None)
        assert (tmp_path / f"out{ending}").read_bytes().decode() == expected
    write_kept(source, tmp_path / "n.txt", [1], column="n")
    assert (tmp_path / "n.txt").read_text() == "2\n"
    write_kept(source, source, [1], column=None)  # into the file that it reads
    assert source.read_text() == "Text\tn\ntwo\t2\n"


def test_rows_that_differ(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "a"}\n{"text": "b", "tags": ["x", 1]}\n')
    with pytest.raises(TertiumError, match="line 2 has tags, which the first row does not have"):
        write_kept(source, tmp_path / "out.tsv", [0, 1], column=None)
    assert not (tmp_path / "out.tsv").exists()
    write_kept(source, tmp_path / "out.jsonl", [0, 1], column=None)
    assert (tmp_path / "out.jsonl").read_text() == source.read_text()
    source.write_text('{"text": "b", "tags": ["x", 1]}\n{"text": "a"}\n')
    write_kept(source, tmp_path / "out.tsv", [0, 1], column=None)
    assert (tmp_path / "out.tsv").read_text() == 'text\ttags\nb\t["x", 1]\na\t\n'
