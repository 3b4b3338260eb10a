import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tertium.data import DataError
from tertium.data.tables import FORMATS, ending, read_records, scan
from tertium.errors import MissingExtraError, TertiumError

from .conftest import Write

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
FLAT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\r\n"))
# A line of a single empty field is not told from a blank one, so there are two.
ROWS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5)
FLAT_ROWS = st.lists(st.tuples(FLAT, FLAT), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def values(path: Path) -> list[dict[str, object]]:
    return [record.values for record in read_records(path)]


@given(rows=FLAT_ROWS.filter(lambda rows: all(any(row) for row in rows)))
@settings(deadline=None)
def test_tsv_comes_back_as_written(rows: list[tuple[str, str]], scratch: Path) -> None:
    path = scratch / "a.tsv"
    lines = ["a\tb", *(f"{first}\t{second}" for first, second in rows)]
    path.write_bytes(("\n".join(lines) + "\n").encode())
    assert values(path) == [{"a": first, "b": second} for first, second in rows]


@given(rows=ROWS)
@settings(deadline=None)
def test_jsonl_comes_back_as_written(rows: list[tuple[str, str]], scratch: Path) -> None:
    path = scratch / "a.jsonl"
    wanted = [{"a": first, "b": second} for first, second in rows]
    path.write_bytes("".join(f"{json.dumps(row)}\n" for row in wanted).encode())
    assert values(path) == wanted


@given(rows=st.lists(st.tuples(FLAT, FLAT.map(lambda s: f"{s}\n{s}")), min_size=1, max_size=5))
@settings(deadline=None)
def test_csv_comes_back_as_written_with_the_first_line_of_each_record(
    rows: list[tuple[str, str]], scratch: Path
) -> None:
    path = scratch / "a.csv"
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("a", "b"), *rows])
    path.write_bytes(stream.getvalue().encode())
    records = list(read_records(path))
    assert [record.values for record in records] == [{"a": a, "b": b} for a, b in rows]
    assert [record.line for record in records] == [2 + 2 * index for index in range(len(rows))]


def test_a_csv_field_may_be_a_whole_book(write: Write) -> None:
    book = "It was a dark, stormy night.\n" * 20_000
    (record,) = read_records(write("a.csv", f'id,text\n1,"{book}"\n'))
    assert record.values == {"id": "1", "text": book}


def test_quotes_in_a_tsv_are_characters_like_any_other(write: Write) -> None:
    path = write("a.tsv", 'a\tb\n"x\t"y"\n')
    assert values(path) == [{"a": '"x', "b": '"y"'}]


def test_parquet_is_read_in_order(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"Text": [f"sentence {i}" for i in range(10_000)]})
    parquet.write_table(table, tmp_path / "a.parquet")
    records = list(read_records(tmp_path / "a.parquet"))
    assert [record.line for record in records] == list(range(1, 10_001))
    assert records[9_999].values == {"text": "sentence 9999"}


def test_parquet_without_pyarrow_names_the_extra(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[scale\]'"):
        list(read_records(write("a.parquet", b"")))


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.csv", "a.jsonl", "a.ndjson"])
def test_text_may_be_gzipped(name: str, write: Write) -> None:
    content = {".txt": b"A.\n", ".tsv": b"sentence\nA.\n", ".csv": b"sentence\nA.\n"}
    plain = content.get(Path(name).suffix, b'{"sentence": "A."}\n')
    assert values(write(f"{name}.gz", gzip.compress(plain))) == values(write(name, plain))


def test_a_byte_order_mark_windows_line_ends_and_case_of_names_do_not_matter(write: Write) -> None:
    path = write("a.tsv", b"\xef\xbb\xbf Sentence1 \tSENTENCE2\r\nA.\tB.\r\n")
    assert values(path) == [{"sentence1": "A.", "sentence2": "B."}]


def test_plain_text_keeps_its_empty_lines_and_odd_line_separators(write: Write) -> None:
    path = write("a.txt", "A.\n\nB.\u2028C.\n")
    assert [record.values["sentence"] for record in read_records(path)] == ["A.", "", "B.\u2028C."]


def test_reading_is_lazy(write: Write) -> None:
    records = read_records(write("a.tsv", b"a\tb\n1\t2\n\xff\n"))
    assert next(records).line == 2
    with pytest.raises(DataError):
        next(records)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"a\tb\n1\t2\n1\xff\t2\n", r"a\.tsv:3: '0xff': not UTF-8"),
        ("a.csv", b"a,b\n1,2\n1\xff,2\n", r"a\.csv:3: '0xff': not UTF-8"),
        ("a.csv", b"\xff,b\n1,2\n", r"a\.csv:1: '0xff': not UTF-8"),
        ("a.jsonl", b'{"a": "\xff"}\n', r"a\.jsonl:1: '0xff': not UTF-8"),
        ("a.txt", b"A.\nB\0.\n", r"a\.txt:2: '\\x00': remove the NUL"),
        ("a.tsv", b"\xff\xfea\0\tb\0\n\0", r"a\.tsv:1: UTF-16, not UTF-8; save the file as"),
        ("a.csv", b"PK\x03\x04\x14\0\x86\n", r"a\.csv:1: an Excel workbook .* save its table"),
        ("a.tsv", b"\xd0\xcf\x11\xe0\xa1\n", r"a\.tsv:1: an old Excel workbook"),
        ("a.txt", gzip.compress(b"A.", mtime=0), r"a\.txt:1: compressed by gzip; add \.gz"),
        ("a.jsonl", b"PAR1\x15\x04", r"a\.jsonl:1: a Parquet file; name it \.parquet"),
        ("a.tsv", b"a\tb\r1\t2\r", r"a\.tsv:1: its lines end in CR only"),
        ("a.csv", b"a,b\r1,2\r", r"a\.csv:1: its lines end in CR only"),
        ("a.csv", b"a|b\n1|2,3\n", r"a\.csv:1: 'a\|b': .*not separated by commas; .* or as \.tsv"),
        ("a.tsv", b"a,b\n1,2\n", r"a\.tsv:1: 'a,b': .*not separated by tabs; .*tabs, or as \.csv"),
        ("a.tsv", b"a;b\n1;2\n", r"a\.tsv:1: 'a;b': .*not separated by tabs"),
        ("a.tsv", b"a\tb\n1\n", r"a\.tsv:2: '1': the header names 2 columns, this line has 1"),
        ("a.tsv", b"a\tb\n1\t2\t3\n", r"a\.tsv:2: .*this line has 3; .*tabs"),
        ("a.tsv", b"a\tb\n\n1\t2\n", r"a\.tsv:2: '': remove the blank line"),
        ("a.csv", b"a,b\n1,2,3\n", r"a\.csv:2: .*quote fields"),
        ("a.csv", b'a,b\n"x"y,2\n', r"a\.csv:2: .*double quotes"),
        ("a.csv", b'a,b\n1,2\n1,"2\n3,4\n', r"a\.csv:3: .*double quotes"),
        ("a.tsv", b"a\tA\n1\t2\n", r"a\.tsv:1: column 'a': 'a': two columns share this name"),
        ("a.csv", b"a,,b\n1,2,3\n", r"a\.csv:1: 'a, , b': the first line must name every column"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: '\[1\]': write one JSON object a line"),
        ("a.jsonl", b"{\n", r"a\.jsonl:1: '\{': write one JSON object a line"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1: .*write one JSON object a line"),
        ("a.tsv", b"", r"a\.tsv: the file holds no rows"),
        ("a.tsv", b"a\tb\n", r"a\.tsv: the file holds no rows"),
        ("a.txt", b"", r"a\.txt: the file holds no rows"),
    ],
)
def test_a_fault_is_named_with_file_line_value_and_remedy(
    name: str, content: bytes, message: str, write: Write
) -> None:
    with pytest.raises(DataError, match=message):
        list(read_records(write(name, content)))


def test_a_fault_spoils_no_other_line(write: Write) -> None:
    items = list(scan(write("a.csv", b'a,b\n1,\xff\n3,"4\n5"\n7\n"8"8\n9,0\n')))
    assert [item.line for item in items] == [2, 3, 5, 6, 7]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv.gz", b"plain", "broken gzip"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n" * 99, mtime=0)[:-9], "broken gzip"),
        ("a.parquet", b"plain", "not a readable Parquet"),
        ("a.docx", b"", r"'\.docx' is not a format"),
        ("a.xlsx", b"", r"'\.xlsx' is not a format .* Save its table as \.csv\."),
        ("a.parquet.gz", b"", "not a format"),
        ("a", b"", "not a format"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    name: str, content: bytes, message: str, write: Write
) -> None:
    with pytest.raises(TertiumError, match=message):
        list(read_records(write(name, content)))


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="no such file"):
        list(read_records(tmp_path / "a.tsv"))
    (tmp_path / "b.tsv").mkdir()
    with pytest.raises(TertiumError, match="is a folder"):
        list(read_records(tmp_path / "b.tsv"))


@pytest.mark.parametrize("suffix", FORMATS)
def test_endings_are_read_whatever_their_case(suffix: str) -> None:
    assert ending(Path(f"my.first.pairs{suffix.upper()}")) == suffix
