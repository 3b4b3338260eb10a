import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tertium.errors import MissingExtraError, TertiumError
from tertium.evaluation import run
from tertium.evaluation.mteb import LOCAL_TASKS, MtebEncoder, run_mteb
from tertium.recipes.suites import evaluate, mteb_suites
from tertium.records.manifest import TrainingData
from tests.conftest import ROOT
from tests.evaluation.conftest import Folder, Placed, by_angle
from tests.evaluation.test_runner import IN_SICK
from tests.fakes import HashEncoder


def test_it_is_an_mteb_encoder_and_nothing_else() -> None:
    from mteb.models import CrossEncoderProtocol, EncoderProtocol, SearchProtocol

    model = HashEncoder("mine")
    model.training_data = (  # type: ignore[attr-defined]
        TrainingData(name="STS-B", split="train"),
        TrainingData(name="own.tsv"),
    )
    encoder = MtebEncoder(model)
    assert isinstance(encoder, EncoderProtocol)
    assert not isinstance(encoder, CrossEncoderProtocol | SearchProtocol)
    meta = encoder.mteb_model_meta
    assert (meta.name, meta.embed_dim) == ("tertium/mine", 16)
    assert meta.training_datasets == {"STSBenchmark", "own.tsv"}
    assert MtebEncoder(HashEncoder("org/name")).mteb_model_meta.name == "org/name"


def test_similarity_is_the_cosine() -> None:
    encoder = MtebEncoder(HashEncoder())
    first, second = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[4.0, 3.0], [1.0, 0.0]])
    assert encoder.similarity(first, second).numpy() == pytest.approx(
        np.array([[0.96, 0.6], [0.0, 0.0]])
    )
    assert encoder.similarity_pairwise(first, second).numpy() == pytest.approx([0.96, 0.0])
    assert encoder.similarity_pairwise(first[0], second[0]).numpy() == pytest.approx([0.96])


def test_local_data_give_our_own_score(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    rows = [("train", 5, "A 0", "b 85"), *(("test", *row) for row in IN_SICK)]
    folder.write("sick_raw.tsv", "split score sentence1 sentence2", rows)
    model = Placed(by_angle)
    with pytest.warns(UserWarning, match="superseded by 'STSBenchmark.v2'"):
        found = run_mteb(model, LOCAL_TASKS, folder=folder.path)
    assert list(found) == list(LOCAL_TASKS)
    ours = run(model, {"sts": ["STS-B"]}, folder=folder.path, text="raw", resamples=0)["sts"]
    entry = found["STSBenchmark"]
    assert entry["main_score"] == pytest.approx(ours.average["average"])
    assert entry["scores"] == {"test": {"default": entry["main_score"]}}
    assert entry["metric"] == "cosine_spearman"
    assert entry["protocol"].startswith("MTEB 2.")
    assert entry["data"].startswith("10 pairs, raw text, ")
    assert found["SICK-R"]["data"].startswith("11 all pairs, raw text, ")
    assert found["SICK-R"]["main_score"] < entry["main_score"]


def test_other_tasks_are_left_to_mteb(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import mteb
    from datasets import Dataset, DatasetDict

    def load_data(self: Any, **options: Any) -> None:
        rows = {"sentence1": ["A 0"] * 3, "sentence2": ["b 1", "b 2", "b 3"], "score": [2, 3, 1]}
        self.dataset = DatasetDict(test=Dataset.from_dict(rows))
        self.data_loaded = True

    monkeypatch.setattr(type(mteb.get_task("BIOSSES")), "load_data", load_data)
    found = run_mteb(Placed(by_angle), ["BIOSSES"], folder=folder.path)["BIOSSES"]
    assert found["main_score"] == pytest.approx(50)
    assert found["data"] == "as MTEB loads it"


def test_an_unknown_task_gets_a_suggestion(folder: Folder) -> None:
    with pytest.raises(
        TertiumError, match=r"'STSBenchmrk' not found. Did you mean: 'STSBenchmark'"
    ):
        run_mteb(HashEncoder(), ["STSBenchmrk"], folder=folder.path)


def test_without_mteb_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "mteb" else find(name)
    )
    with pytest.raises(MissingExtraError, match=r"needs mteb.*pip install 'tertium\[mteb\]'"):
        run_mteb(HashEncoder(), ["STS12"])


@pytest.mark.data
@pytest.mark.long
def test_the_snippet_gives_the_published_score(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERTIUM_DATA", str(data_folder))
    monkeypatch.setattr(sys, "argv", ["mteb.py"])
    path = ROOT / "docs" / "snippets" / "mteb.py"
    assert path.read_text() in (ROOT / "docs" / "how-to" / "mteb.md").read_text()
    runpy.run_path(str(path))
    out = capsys.readouterr().out
    assert float(out.split()[0]) == pytest.approx(78.99, abs=0.03)
    assert "1,186 pairs, raw text" in out


def _stand_in(task: str, monkeypatch: pytest.MonkeyPatch, dataset: Any) -> None:
    """MTEB's task with a few rows of ours in place of what it would download."""
    import mteb

    def load_data(self: Any, **options: Any) -> None:
        self.dataset = dataset
        self.data_loaded = True

    monkeypatch.setattr(type(mteb.get_task(task)), "load_data", load_data)


def _rows(**columns: list[Any]) -> Any:
    from datasets import Dataset, DatasetDict

    return DatasetDict({name: Dataset.from_dict(columns) for name in ("train", "test")})


def _search(documents: list[str], queries: dict[str, str], relevant: dict[str, str]) -> Any:
    from datasets import Dataset

    names = [f"d{at}" for at in range(len(documents))]
    titles = [""] * len(documents)
    return {
        "default": {
            "test": {
                "corpus": Dataset.from_dict({"id": names, "title": titles, "text": documents}),
                "queries": Dataset.from_dict({"id": [*queries], "text": [*queries.values()]}),
                "relevant_docs": {query: {found: 1} for query, found in relevant.items()},
                "top_ranked": dict.fromkeys(queries, names),
            }
        }
    }


class TestEveryKindOfTask:
    """Stand-ins whose right answers are known: texts that name angles, see ``by_angle``."""

    def test_classification(self, monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
        texts = [f"A {angle}" for angle in (*range(0, 20), *range(70, 90))]
        labels = [0] * 20 + [1] * 20
        _stand_in("Banking77Classification.v2", monkeypatch, _rows(text=texts, label=labels))
        found = _suite("mteb:Banking77Classification.v2", folder)
        assert found.headline == "accuracy" and found.average == {"average": pytest.approx(100)}

    @pytest.mark.filterwarnings("ignore:To copy construct")  # MTEB's own
    def test_bitext_mining(self, monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
        pairs = _rows(sentence1=["A 0", "A 30", "A 80"], sentence2=["b 1", "b 33", "b 79"])
        _stand_in("PhincBitextMining", monkeypatch, {"eng-eng_hin": pairs})
        found = run_mteb(Placed(by_angle), ["PhincBitextMining"], folder=folder.path)
        assert found["PhincBitextMining"]["main_score"] == pytest.approx(100)
        assert found["PhincBitextMining"]["metric"] == "f1"

    def test_retrieval_keeps_all_metrics(
        self, monkeypatch: pytest.MonkeyPatch, folder: Folder
    ) -> None:
        found = _search(
            ["b 2", "b 40", "b 80"], {"q0": "A 0", "q1": "A 35"}, {"q0": "d0", "q1": "d0"}
        )
        _stand_in("NFCorpus", monkeypatch, found)
        (task,) = _suite("mteb:NFCorpus", folder).tasks
        metrics = task.values["metrics"]["test"]["default"]
        for cut in (1, 5, 10):
            for name in ("map", "ndcg", "mrr", "precision", "recall"):
                assert f"{name}_at_{cut}" in metrics
        # the first query finds its text first, the second one second
        assert metrics["recall_at_1"] == pytest.approx(0.5)
        assert metrics["mrr_at_10"] == pytest.approx(0.75)

    def test_reranking(self, monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
        found = _search(["b 2", "b 40"], {"q0": "A 0", "q1": "A 39"}, {"q0": "d0", "q1": "d1"})
        _stand_in("AskUbuntuDupQuestions", monkeypatch, found)
        suite = _suite("mteb:AskUbuntuDupQuestions", folder)
        assert suite.average == {"average": pytest.approx(100)}


def _suite(name: str, folder: Folder) -> Any:
    report = evaluate(Placed(by_angle), [name], data=folder.path)
    assert list(report.to_json()["results"]) == [name]
    return report[name]


def test_own_and_mteb_tasks_share_a_report(folder: Folder) -> None:
    folder.all_sts(IN_SICK)
    report = evaluate(Placed(by_angle), ["sts", "mteb:STS16"], data=folder.path, resamples=0)
    assert [suite.suite for suite in report.suites] == ["sts", "mteb:STS16"]
    assert "mteb:STS16" in str(report) and "mteb:STS16" in report.to_markdown()


def test_the_papers_lists_name_tasks_that_mteb_has() -> None:
    import mteb

    for suite in mteb_suites().values():
        kinds = {mteb.get_task(task).metadata.type for task in suite.tasks}
        assert len(kinds) == 1
    assert [len(suite.tasks) for suite in mteb_suites().values()] == [3, 45, 14, 15]
