from pathlib import Path

import pytest
from pydantic import ValidationError

from tertium.errors import TertiumError
from tertium.evaluation import TASKS
from tertium.recipes import Suite, evaluate, suites
from tests.evaluation.conftest import Folder
from tests.evaluation.test_runner import IN_SICK, STS
from tests.fakes import HashEncoder


def test_every_suite_loads_and_every_task_is_in_one() -> None:
    sts, others = ("sts", "sts-short", "sts-b"), ("transfer", "geometry", "csts", "contrast")
    own = {*sts, *others, "negations"}
    assert set(suites()) == own
    assert list(suites()["sts"].tasks) == STS
    assert {task for suite in suites().values() for task in suite.tasks} == {*TASKS}
    assert all(len({TASKS[task].headline for task in s.tasks}) == 1 for s in suites().values())


def test_a_suite_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Suite.model_validate({"suite": "mine", "summary": "", "tasks": [], "task": "STS12"})


def test_evaluate_runs_the_named_suites(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    report = evaluate(HashEncoder(), ["geometry", "sts"], data=folder.path, resamples=0)
    assert [suite.suite for suite in report.suites] == ["geometry", "sts"]
    assert [task.task for task in report["sts"].tasks] == STS


def test_an_unknown_suite_gets_a_suggestion_before_a_model_is_loaded() -> None:
    with pytest.raises(TertiumError, match=r"No suite 'tranfer'. Did you mean 'transfer'\?"):
        evaluate("no-such-model", ["sts", "tranfer"])


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match="no such data folder"):
        evaluate(HashEncoder(), data=tmp_path / "none")
