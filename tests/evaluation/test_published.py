"""Scores that others published for the default model."""

from pathlib import Path

import pytest

import tertium

pytestmark = [pytest.mark.data, pytest.mark.slow]


def test_the_default_model_scores_what_is_published(data_folder: Path) -> None:
    from tertium.evaluation import run

    tasks = {"sts": ["STS16", "STS-B"]}
    report = run(tertium.load(), tasks, folder=data_folder, text="raw", resamples=0)
    scores = {task.task: task.values["spearman"] for task in report["sts"].tasks}
    assert scores == pytest.approx({"STS16": 78.99, "STS-B": 82.03}, abs=0.03)
    assert [task.values["pairs"] for task in report["sts"].tasks] == [1186, 1379]
