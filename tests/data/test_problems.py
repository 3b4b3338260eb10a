from tertium.data import DataError, Problem


def test_a_problem_is_one_line_with_all_its_parts() -> None:
    problem = Problem("a.tsv", 3, "score", "x\ny", "write a number")
    assert str(problem) == "a.tsv:3: column 'score': 'x\\ny': write a number"


def test_parts_that_do_not_apply_are_left_out() -> None:
    assert str(Problem("a.tsv", 0, "", None, "add rows")) == "a.tsv: add rows"


def test_a_long_value_is_cut() -> None:
    assert len(str(Problem("a.tsv", 3, "s", "x" * 10_000, "shorten"))) < 120


def test_the_error_shows_the_first_problem_how_many_more_and_the_command() -> None:
    problems = [Problem("my pairs.tsv", line, "score", "x", "write a number") for line in (2, 5, 9)]
    error = DataError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == (
        "my pairs.tsv:2: column 'score': 'x': write a number (and 2 more). "
        "Run: tertium data check 'my pairs.tsv'"
    )
