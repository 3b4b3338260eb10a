from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.data import DataError, load, pair_key, pair_keys, parse_spec
from tertium.errors import TertiumError

from .conftest import Write


@given(st.text(), st.text())
def test_order_does_not_matter(first: str, second: str) -> None:
    assert pair_key(first, second) == pair_key(second, first)


@given(st.text(st.characters(max_codepoint=127)), st.text())
def test_case_and_punctuation_do_not_matter(first: str, second: str) -> None:
    spaced = "".join(f" {letter}-" for letter in first.upper())
    assert pair_key(f"«{spaced}»!", second) == pair_key(first, second)


@given(st.text(), st.text())
def test_a_key_is_its_own_key(first: str, second: str) -> None:
    key = pair_key(first, second)
    assert all(text.isalnum() or not text for text in key)
    assert pair_key(*key) == key


def test_words_and_digits_do_matter() -> None:
    assert pair_key("route 66", "a") != pair_key("route 67", "a")
    assert pair_key("ab", "c") != pair_key("a", "bc")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("graded.tsv", "score\tsentence1\tsentence2\n3\tA cat.\tA dog.\n"),
        ("own.csv", "a,b\nA dog!,a CAT\n"),
        ("nli.jsonl", '{"premise": "A cat", "hypothesis": "A dog", "label": "neutral"}\n'),
        ("csts.csv", "sentence1,sentence2,condition,label\nA dog,A cat,size,-1\n"),
        ("classes.tsv", "label\tsentence1\tsentence2\nsame\tA cat\tA dog\n"),
    ],
)
def test_any_file_of_pairs_has_keys(name: str, content: str, write: Write) -> None:
    assert pair_keys(write(name, content)) == {pair_key("A cat.", "A dog.")}


def test_a_triplet_is_two_pairs(write: Write) -> None:
    path = write("a.tsv", "anchor\tpositive\thard_negative\nA\tB\tC\n")
    assert pair_keys(path) == {pair_key("A", "B"), pair_key("A", "C")}


def test_a_split_limits_the_keys(write: Write) -> None:
    path = write("a.tsv", "split\ta\tb\ntrain\tA\tB\ntest\tC\tD\n")
    assert pair_keys(path, split="train") == {pair_key("A", "B")}
    assert len(pair_keys(path)) == 2
    with pytest.raises(DataError, match="no row has this split"):
        pair_keys(path, split="dev")


@pytest.mark.parametrize(("name", "content"), [("a.txt", "A.\n"), ("a.tsv", "label\ttext\n1\tA\n")])
def test_single_texts_are_refused(name: str, content: str, write: Write) -> None:
    with pytest.raises(TertiumError, match="holds single texts, not pairs"):
        pair_keys(write(name, content))


@pytest.mark.parametrize(
    ("spec", "file", "split"),
    [
        ("stsb.tsv", "stsb.tsv", None),
        ("data/stsb.tsv:train", "data/stsb.tsv", "train"),
        (r"C:\data\stsb.tsv:dev", r"C:\data\stsb.tsv", "dev"),
        (r"C:\data\stsb.tsv", r"C:\data\stsb.tsv", None),
        ("C:pairs", "C:pairs", None),
        ("a.tsv:", "a.tsv:", None),
    ],
)
def test_a_spec_is_a_file_and_perhaps_a_split(spec: str, file: str, split: str | None) -> None:
    assert parse_spec(spec) == (Path(file), split)


def test_a_file_with_a_colon_in_its_name_is_a_file(write: Write) -> None:
    path = write("a:b", "")
    assert parse_spec(str(path)) == (path, None)


@pytest.mark.data
@pytest.mark.parametrize(
    ("year", "train", "dev", "test"),
    [
        ("STS12", 1003, 259, 256),
        ("STS13", 597, 81, 72),
        ("STS14", 1861, 193, 205),
        ("STS15", 1102, 580, 199),
        ("STS16", 197, 22, 285),
    ],
)
def test_sts_benchmark_is_found_in_the_years_it_was_made_from(
    year: str, train: int, dev: int, test: int, data_folder: Path
) -> None:
    pairs = [pair_key(row.sentence1, row.sentence2) for row in load(year, folder=data_folder).rows]
    for split, count in {"train": train, "dev": dev, "test": test}.items():
        keys = pair_keys(data_folder / "stsb.tsv", split=split)
        assert sum(pair in keys for pair in pairs) == count
