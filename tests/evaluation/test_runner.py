from typing import Any

import numpy as np
import pytest

from tertium.errors import TertiumError
from tertium.evaluation import run
from tests.evaluation.conftest import Folder, Placed, by_angle
from tests.evaluation.test_sts import TEN
from tests.fakes import HashEncoder

STS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
IN_SICK = [(max(gold, 1.0), a, b) for gold, a, b in TEN]  # whose scores start at 1


def test_a_text_is_encoded_once_however_many_tasks_share_it(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    folder.sts("sts16.tsv", [*TEN, (1, "A 0", "b 85"), (2, "b 85", "b 8")])
    model, baseline = HashEncoder(), HashEncoder("baseline")
    suites = {"sts": STS, "geometry": ["geometry"]}
    run(model, suites, folder=folder.path, resamples=5, baseline=baseline)
    for encoder in (model, baseline):
        assert len(encoder.seen) == len(set(encoder.seen)) == 12


def test_the_average_is_that_of_the_tasks(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    suite = run(HashEncoder(), {"sts": STS}, folder=folder.path, resamples=50)["sts"]
    scores = [task.values["spearman"] for task in suite.tasks]
    assert suite.average["average"] == pytest.approx(np.mean(scores))
    low, high = suite.average["interval"]
    assert low < suite.average["average"] < high


def test_the_seed_alone_decides(folder: Folder) -> None:
    folder.all_sts(IN_SICK)

    def found(seed: int) -> dict[str, Any]:
        suite = run(HashEncoder(), {"sts": ["STS12"]}, folder=folder.path, resamples=9, seed=seed)
        return suite["sts"].tasks[0].values

    assert found(1) == found(1)
    assert found(1)["interval"] != found(2)["interval"]


def test_raw_text_is_read_from_its_own_file(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    folder.sts("sts12_raw.tsv", [(5 - at / 2, "A 0", f"b {8 * at}") for at in range(10)])
    (task,) = run(
        Placed(by_angle), {"sts": ["STS12"]}, folder=folder.path, text="raw", resamples=0
    )["sts"].tasks
    assert task.values["spearman"] == pytest.approx(100)
    assert task.data["text"] == "raw"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "sentevl"}, "No form of text 'sentevl'. Did you mean 'senteval'?"),
        ({"suites": {"sts": ["STS12", "STSB"]}}, "No task 'STSB'. Did you mean 'STS-B'?"),
        ({"suites": {"mixed": ["STS12", "MR"]}}, "one headline figure, not accuracy, spearman"),
        ({"suites": {"empty": []}}, "one headline figure, not none"),
        ({"resamples": -1}, "resamples is -1; it must be at least 0"),
        ({"resamples": 0, "baseline": HashEncoder()}, "resamples is 0; it must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(
    folder: Folder, options: dict[str, Any], message: str
) -> None:
    folder.all_sts(IN_SICK)
    model = HashEncoder()
    suites = options.pop("suites", {"sts": ["STS12"]})
    with pytest.raises(TertiumError, match=message.replace("?", r"\?")):
        run(model, suites, folder=folder.path, **{"resamples": 5, **options})
    assert not model.seen


def test_a_vector_that_is_not_finite_is_named(folder: Folder) -> None:
    folder.sts("sts12.tsv", TEN)
    model = Placed(lambda text: (np.inf if text == "b 24" else 1, 0))
    with pytest.raises(TertiumError, match="placed gives a vector that is not finite for 'b 24'"):
        run(model, {"sts": ["STS12"]}, folder=folder.path)


def test_bfloat16_is_for_encoders_that_torch_runs(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    options: dict[str, Any] = {"folder": folder.path, "resamples": 0}
    with pytest.raises(TertiumError, match="not made of encoders"):
        run(HashEncoder(), {"sts": ["STS-B"]}, precision="bf16", **options)
    with pytest.raises(TertiumError, match="No precision 'bf8'"):
        run(HashEncoder(), {"sts": ["STS-B"]}, precision="bf8", **options)  # type: ignore[arg-type]
