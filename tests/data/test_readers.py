from pathlib import Path

import pytest

from tertium.data import (
    DataError,
    GradedPair,
    Pair,
    Sentence,
    check_file,
    iter_rows,
    iter_texts,
    read_rows,
)
from tertium.errors import TertiumError

from .conftest import Write

GRADED = "split\tscore\tsentence1\tsentence2\ntrain\t1\tA.\tB.\ntest\t5\tC.\tD.\n"


def test_rows_are_read_in_order(write: Write) -> None:
    rows = read_rows(write("a.tsv", GRADED), GradedPair)
    assert [(row.sentence1, row.sentence2, row.score) for row in rows] == [
        ("A.", "B.", 1.0),
        ("C.", "D.", 5.0),
    ]


def test_a_split_is_chosen_by_its_column(write: Write) -> None:
    assert [row.sentence1 for row in read_rows(write("a.tsv", GRADED), Pair, split="test")] == [
        "C."
    ]


def test_an_unknown_split_lists_those_that_are_there(write: Write) -> None:
    with pytest.raises(DataError, match="'dev': no row has this split; the file has: test, train"):
        read_rows(write("a.tsv", GRADED), Pair, split="dev")


def test_a_split_needs_a_column(write: Write) -> None:
    with pytest.raises(DataError, match="no such column"):
        read_rows(write("a.tsv", "a\tb\nA.\tB.\n"), Pair, split="test")


def test_the_first_bad_row_raises_and_those_before_it_are_given(write: Write) -> None:
    rows = iter_rows(write("a.tsv", "score\ta\tb\n1\tA.\tB.\nx\tC.\tD.\n"), GradedPair)
    assert next(rows).sentence1 == "A."
    with pytest.raises(DataError, match=r"a\.tsv:3: column 'score': 'x': write a number") as caught:
        next(rows)
    assert [problem.line for problem in caught.value.problems] == [3]


def test_a_score_outside_the_scale_raises(write: Write) -> None:
    with pytest.raises(DataError, match="column 'score': '5': write a number from 0 to 4"):
        read_rows(write("a.tsv", GRADED), GradedPair, scale=(0, 4))


def test_a_missing_column_is_reported_once_and_at_the_header(write: Write) -> None:
    path = write("a.tsv", "sentence1\tscore\nA.\t1\nB.\t2\n")
    with pytest.raises(DataError, match="column 'sentence2': no such column among: sentence1, sc"):
        read_rows(path, GradedPair)
    assert [(p.line, p.column) for p in check_file(path, kind="graded").problems] == [
        (1, "sentence2")
    ]


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="no such file"):
        iter_rows(tmp_path / "a.tsv", Sentence)


def test_texts_stand_where_they_stand_in_the_file(write: Write) -> None:
    assert list(iter_texts(write("a.txt", "A.\n\n  \nB.\n"))) == ["A.", "", "  ", "B."]


def test_texts_come_from_the_column_asked_for(write: Write) -> None:
    path = write("a.csv", "id,text,Title\n1,A.,T.\n2,,U.\n")
    assert list(iter_texts(path)) == ["A.", ""]
    assert list(iter_texts(path, column="title")) == ["T.", "U."]


@pytest.mark.parametrize(("column", "end"), [(None, "; name yours with --column"), ("body", "")])
def test_texts_without_a_column_say_which_there_are(
    column: str | None, end: str, write: Write
) -> None:
    path = write("a.jsonl", '{"id": 1, "title": "T."}\n')
    with pytest.raises(DataError, match=rf"needs text in column .*; found: id, title{end}\."):
        list(iter_texts(path, column=column))


def test_a_text_that_is_a_number_raises(write: Write) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl:2: column 'text': '7'"):
        list(iter_texts(write("a.jsonl", '{"text": "A."}\n{"text": 7}\n')))


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("texts", "a.txt", "A.\n"),
        ("texts", "a.tsv", "text\tid\nA.\t1\n"),
        ("pairs", "a.tsv", "a\tb\nA.\tB.\n"),
        ("graded", "a.csv", "s1,s2,similarity\nA.,B.,0.5\n"),
        ("graded", "a.csv", "s1,s2,label\nA.,B.,1\n"),
        ("conditional", "a.csv", "sentence1,sentence2,condition,label\nA.,B.,size,3\n"),
        ("triplets", "a.csv", "sent0,sent1,hard_neg\nA.,B.,C.\n"),
        ("nli", "a.tsv", "premise\thypothesis\tlabel\nA.\tB.\tneutral\n"),
        ("nli", "a.jsonl", '{"sentence1": "A.", "sentence2": "B.", "gold_label": "neutral"}\n'),
        ("labelled", "a.tsv", "label\tsentence\n0\tA.\n"),
        ("labelled-pairs", "a.tsv", "label\tsentence1\tsentence2\nsame\tA.\tB.\n"),
    ],
)
def test_the_kind_of_a_file_is_told_from_its_columns(
    kind: str, name: str, content: str, write: Write
) -> None:
    check = check_file(write(name, content))
    assert (check.kind, check.rows, check.problems) == (kind, 1, ())


def test_a_check_lists_every_problem(write: Write) -> None:
    lines = ["score\ta\tb", "1\tA.\tB.", "inf\tA.\t ", "2", "", "x\tA.\tB.", "5\tA.\tB."]
    check = check_file(write("a.tsv", "\n".join(lines)))
    assert (check.kind, check.rows) == ("graded", 2)
    assert [(problem.line, problem.column) for problem in check.problems] == [
        *((3, "b"), (3, "score"), (4, ""), (5, ""), (6, "score"))
    ]


def test_a_check_finds_empty_lines_of_text(write: Write) -> None:
    check = check_file(write("a.txt", "A.\n\nB.\n"))
    assert (check.kind, check.rows) == ("texts", 2)
    assert [(problem.line, problem.value) for problem in check.problems] == [(2, "")]


def test_a_check_of_objects_with_different_keys_reports_each_line(write: Write) -> None:
    check = check_file(write("a.jsonl", '{"a": "A.", "b": "B."}\n{"a": "A."}\n{"b": "B."}\n'))
    assert [(problem.line, problem.column) for problem in check.problems] == [
        (2, "sentence2"),
        (3, "sentence1"),
    ]


@pytest.mark.parametrize("content", ["", "x\ty\n1\t2\n", "a\ta\n1\t2\n", "a\tb\n1\n"])
def test_a_file_without_a_kind_is_a_problem_not_a_crash(content: str, write: Write) -> None:
    check = check_file(write("a.tsv", content))
    assert (check.kind, check.rows, len(check.problems)) == (None, 0, 1)


def test_a_kind_may_be_given_and_must_be_known(write: Write) -> None:
    path = write("a.tsv", GRADED)
    assert check_file(path, kind="pairs").kind == "pairs"
    assert check_file(path, kind="nli").problems
    with pytest.raises(TertiumError, match="Did you mean 'pairs'"):
        check_file(path, kind="pair")
