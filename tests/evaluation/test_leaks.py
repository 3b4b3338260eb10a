import json
from pathlib import Path

import pytest

from tertium.data import DATASETS, load, pair_key
from tertium.evaluation import Report, run
from tertium.records.manifest import TrainingData
from tests.evaluation.conftest import Folder, Placed, by_angle
from tests.evaluation.test_sts import TEN
from tests.fakes import HashEncoder

PAIRS = [(a, b) for _, a, b in TEN]


def evaluate(folder: Folder, *seen: TrainingData, exclude: tuple[str, ...] = ()) -> Report:
    folder.sts("sts12.tsv", TEN)
    model = Placed(by_angle)
    model.training_data = seen  # type: ignore[attr-defined]
    tasks = {"sts": ["STS12"]}
    return run(model, tasks, folder=folder.path, resamples=0, exclude=exclude)


def left(report: Report) -> int:
    return int(report["sts"].tasks[0].values["leak_free"]["pairs"])


def write_stsb(folder: Folder) -> None:
    """Two pairs of STS12 in train, one more in dev, spelt otherwise."""
    splits = ["train", "train", "dev", "test"]
    texts = [("a 0 .", "B 0"), ("b 8", "a 0"), ("A 0", "b 16"), ("other", "pair")]
    rows = [(split, 1, *pair) for split, pair in zip(splits, texts, strict=True)]
    folder.write("stsb.tsv", "split score sentence1 sentence2", rows)


@pytest.mark.parametrize(
    ("split", "pairs", "kept"), [("train", 2, 8), ("dev", 1, 9), ("test", 1, 10), (None, 4, 7)]
)
def test_sets_on_the_card_are_left_out(
    folder: Folder, split: str | None, pairs: int, kept: int
) -> None:
    write_stsb(folder)
    report = evaluate(folder, TrainingData(name="STS-B", split=split, use="selection"))
    assert left(report) == kept
    excluded = json.loads(json.dumps(report.to_json()))["provenance"]["excluded"]
    assert excluded == [{"name": "STS-B", "split": split, "use": "selection", "pairs": pairs}]
    shown = f"STS-B {split}" if split else "STS-B"
    assert f"leak-free: without the pairs of {shown} (selection, {pairs} pairs)" in str(report)
    assert f"leak-free: without the pairs of {shown}" in report.to_markdown()


def test_files_and_card_are_left_out_together(folder: Folder) -> None:
    write_stsb(folder)
    own = folder.write("own.tsv", "sentence1 sentence2", [PAIRS[0], PAIRS[4]])
    named = folder.write("named.tsv", "sentence1 sentence2", PAIRS[4:6])
    seen = (TrainingData(name="STS-B", split="train"), TrainingData(name=str(own)))
    report = evaluate(folder, *seen, exclude=(str(named),))
    assert left(report) == 10 - len({0, 1, 4, 5})
    names = [(entry.name, entry.use, entry.pairs) for entry in report.provenance.excluded]
    assert names == [
        (str(named), "named", 2),
        ("STS-B", "training", 2),
        (str(own), "training", 2),
    ]


def test_triplets_count_as_two_pairs(folder: Folder) -> None:
    file = folder.write("t.tsv", "anchor positive hard_negative", [("A 0", "b 8", "b 16")])
    assert left(evaluate(folder, TrainingData(name=str(file)))) == 8


def test_plain_sentences_are_passed_over(folder: Folder) -> None:
    texts = folder.path / "texts.txt"
    texts.write_text("A 0\n")
    folder.write("mr.tsv", "label sentence", [(1, "A 0"), (0, "b 8")])
    report = evaluate(folder, TrainingData(name=str(texts)), TrainingData(name="MR"))
    assert report.provenance.excluded == ()
    assert "leak_free" not in report["sts"].tasks[0].values


@pytest.mark.parametrize("name", ["gone.tsv", "STS-B"])
def test_what_is_not_available_is_named(
    folder: Folder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    split = "trian" if name == "STS-B" else None
    with pytest.warns(UserWarning, match=f"has seen {name}, which is not available"):
        report = evaluate(folder, TrainingData(name=name, split=split))
    assert report.provenance.excluded == ()


def test_sets_that_are_missing_for_one_reason_share_a_note(folder: Folder) -> None:
    listed = [TrainingData(name=name) for name in ("gone.tsv", "lost.tsv", "gone.tsv")]
    with pytest.warns(UserWarning, match="has seen gone.tsv and lost.tsv, which are not") as noted:
        evaluate(folder, *listed)
    assert [str(note.message) for note in noted if "card" in str(note.message)][1:] == []


def test_without_a_card_nothing_is_left_out(folder: Folder) -> None:
    report = evaluate(folder)
    assert "leak_free" not in report["sts"].tasks[0].values
    assert "leak-free" not in str(report)


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name, d in DATASETS.items() if len(d.files) == 2])
def test_both_forms_of_the_text_have_the_same_keys(name: str, data_folder: Path) -> None:
    for split in DATASETS[name].rows:
        forms = [
            load(name, split=split, folder=data_folder, text=t).rows for t in ("senteval", "raw")
        ]
        first, second = ([pair_key(r.sentence1, r.sentence2) for r in rows] for rows in forms)
        assert first == second


@pytest.mark.data
def test_pairs_of_sts_benchmark_are_in_the_years(data_folder: Path) -> None:
    """What other tools do not say: training on STS-B means having seen much of STS12 to STS16."""
    model = HashEncoder()
    model.training_data = (TrainingData(name="STS-B", split="train"),)  # type: ignore[attr-defined]
    report = run(model, {"sts": ["STS14", "SICK-R"]}, folder=data_folder, resamples=0)
    removed = {t.task: t.values["leak_free"]["removed"] for t in report["sts"].tasks}
    assert removed == {"STS14": 1861, "SICK-R": 55}
