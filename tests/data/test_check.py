import pytest

from tertium.data import check_file
from tertium.errors import TertiumError

from .conftest import Write


def test_columns_of_several_raters_are_named(write: Write) -> None:
    path = write(
        "a.tsv",
        "sentence1\tsentence2\tscore\trater1\trater2\tgenre\n"
        "A.\tB.\t3\t2\t4\tnews\nC.\tD.\t1\t\t1\tnews\n",
    )
    check = check_file(path)
    assert not check.problems and check.rows == 2
    assert any("--label-column rater1,rater2" in note for note in check.notes)


def test_raters_without_a_column_of_grades(write: Write) -> None:
    check = check_file(write("a.tsv", "sentence1\tsentence2\tann\tbob\nA.\tB.\t2\t4\n"))
    assert check.kind == "pairs" and "--label-column ann,bob" in check.notes[0]


def test_a_pair_that_is_graded_twice(write: Write) -> None:
    rows = ["sentence1\tsentence2\tscore", "A b.\tC d.\t3", "E\tF\t1", "c D\ta b\t3", "E\tF\t4"]
    check = check_file(write("a.tsv", "\n".join(rows) + "\n"))
    assert check.notes[-2:] == (
        "pairs that occur more than once: 2, first in lines 2 and 4",
        "of these with different grades: 1, first in lines 3 and 5",
    )


def test_the_same_pair_under_two_conditions_is_not_repeated(write: Write) -> None:
    rows = ["sentence1\tsentence2\tcondition\tscore", "A\tB\tcolour\t3", "A\tB\tsize\t1"]
    assert not any(
        "more than once" in note
        for note in check_file(write("a.tsv", "\n".join(rows) + "\n")).notes
    )


def test_a_column_of_texts_is_checked(write: Write) -> None:
    path = write("a.jsonl", '{"body": "A."}\n{"body": 7}\n')
    check = check_file(path, column="body")
    assert (check.kind, check.rows) == ("texts", 1)
    assert [(problem.line, problem.column) for problem in check.problems] == [(2, "body")]
    with pytest.raises(TertiumError, match="leave out --kind graded"):
        check_file(path, column="body", kind="graded")


def test_a_column_that_is_not_there_is_one_problem(write: Write) -> None:
    (problem,) = check_file(write("a.tsv", "id\ttitle\n1\tT.\n"), column="body").problems
    assert "needs text in column body; found: id, title" in problem.remedy


def test_an_ambiguous_file_is_named_as_such_and_its_rows_are_sound(write: Write) -> None:
    check = check_file(write("a.tsv", "a\tb\tlabel\nA.\tB.\tnear\nC.\tD.\tfar\n"))
    assert (check.kind, check.rows, check.problems) == ("labelled-pairs", 2, ())
    assert check.recognised is None and "--labels far,near" in check.ambiguous


def test_bad_rows_do_not_hide_what_a_file_is(write: Write) -> None:
    check = check_file(write("a.tsv", "a\tb\tscore\nA.\tB.\t5\nC.\n\tD.\t0\n"))
    assert check.recognised is not None and check.recognised.shape == "graded"
    assert [problem.line for problem in check.problems] == [3, 4]


def test_columns_that_need_names_are_proposed(write: Write) -> None:
    (problem,) = check_file(write("a.csv", "left,right\nOne text.,Another text.\n")).problems
    assert "--column1 left --column2 right" in problem.remedy
