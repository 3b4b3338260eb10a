import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.errors import TertiumError
from tertium.evaluation import run, spearman
from tertium.evaluation.metrics import bootstrap_pearson, cosines, pearson
from tertium.evaluation.tasks.csts import (
    CONDITION_TYPES,
    OTHER,
    clustered_counts,
    condition_sensitivity,
    condition_type,
    write_predictions,
)
from tertium.models.base import TripleScorer
from tertium.types import TextTriple
from tests.evaluation.conftest import Folder
from tests.fakes import HashEncoder

# Ten triples of our own: five pairs, each under two conditions.
ROWS = [
    ("one red cat", "two red cats", "The number of cats.", 1),
    ("one red cat", "two red cats", "The color.", 5),
    ("a man runs", "a man walks", "The sex of the person.", 5),
    ("a man runs", "a man walks", "The action.", 2),
    ("soup in a bowl", "soup on fire", "The meal.", 4),
    ("soup in a bowl", "soup on fire", "The mood.", 1),
    ("a bus at noon", "a bus at night", "The kind of vehicle.", 5),
    ("a bus at noon", "a bus at night", "The time of day.", 1),
    ("a hat", "a cap", "The object.", 3),
    ("a hat", "a cap", "The shop.", 3),
]
GOLD = [row[3] for row in ROWS]


class Asked(TripleScorer):
    """Scores a triple by a function of its place in ``ROWS``."""

    name = "asked"
    scale = (1.0, 5.0)

    def __init__(self, scores: Iterable[float]) -> None:
        self.scores = dict(zip([row[:3] for row in ROWS], scores, strict=True))

    def grade(self, triples: list[TextTriple], **options: Any) -> np.ndarray:
        return np.array([self.scores[triple] for triple in triples])

    def save(self, folder: Path | str) -> None:
        raise NotImplementedError


def write(path: Path, split: str, labels: Iterable[object]) -> None:
    with (path / f"csts_{split}.csv").open("w", newline="") as stream:
        rows = [(*row[:3], label) for row, label in zip(ROWS, labels, strict=False)]
        csv.writer(stream).writerows([("sentence1", "sentence2", "condition", "label"), *rows])


@pytest.fixture
def csts(folder: Folder) -> Path:
    write(folder.path, "validation", GOLD)
    write(folder.path, "test", [-1] * 10)
    return folder.path


def values_of(model: Any, folder: Path, **options: Any) -> dict[str, Any]:
    report = run(model, {"csts": ["C-STS"]}, folder=folder, **options)
    return report["csts"].tasks[0].values


def test_a_model_that_heeds_conditions(csts: Path) -> None:
    scores = [1, 4, 5, 1, 4, 2, 4, 1, 3, 2]
    values = values_of(Asked(scores), csts, resamples=200)
    assert values["spearman"] == pytest.approx(100 * spearman(GOLD, scores))
    assert values["pearson"] == pytest.approx(100 * pearson(GOLD, scores))
    assert (values["pairs"], values["sentence_pairs"]) == (10, 5)
    low, high = values["interval"]
    assert low <= values["spearman"] <= high
    assert values["pearson_interval"][0] <= values["pearson"] <= values["pearson_interval"][1]
    assert values["sensitivity"]["direction"] == 100
    assert values["sensitivity"]["agreement"] > 90
    assert values["sensitivity"]["pairs"] == 5


def test_an_encoder_is_an_unconditional_baseline(csts: Path) -> None:
    model = HashEncoder()
    values = values_of(model, csts, resamples=0)
    vectors = [model.encode([row[side] for row in ROWS]) for side in (0, 1)]
    assert values["spearman"] == pytest.approx(100 * spearman(GOLD, cosines(*vectors)))
    assert values["sensitivity"] == {
        "movement": 0.0,
        "agreement": None,
        "direction": 50.0,
        "pairs": 5,
    }
    assert values["interval"] is None


def test_a_baseline_is_tested_in_the_same_samples(csts: Path) -> None:
    model = Asked(GOLD)
    values = values_of(model, csts, resamples=100, baseline=HashEncoder())
    assert values["baseline"]["model"] == "hash"
    assert values["baseline"]["difference"] > 0
    same = values_of(model, csts, resamples=100, baseline=model)["baseline"]
    assert (same["difference"], same["interval"]) == (0.0, [0.0, 0.0])


def test_the_breakdown_counts_every_triple_once(csts: Path) -> None:
    values = values_of(Asked(GOLD), csts, resamples=0)
    assert sum(entry["pairs"] for entry in values["types"].values()) == 10
    assert values["types"]["color"]["pairs"] == 1
    assert values["types"]["color"]["spearman"] is None  # one triple has no correlation
    assert values["types"][OTHER]["pairs"] == 3


def test_the_report_shows_conditions_and_types(csts: Path) -> None:
    report = run(Asked(GOLD), {"csts": ["C-STS"]}, folder=csts, resamples=0)
    for text in (str(report), report.to_markdown()):
        assert "movement" in text and "condition asks for" in text and "vehicle" in text
    json.dumps(report.to_json(), allow_nan=False)


def test_a_scorer_of_triples_has_no_vectors_for_other_suites(folder: Folder) -> None:
    folder.all_sts([(1.0, "a", "b"), (2.0, "c", "d")])
    with pytest.raises(
        TertiumError, match=r"asked .* gives no vectors\. Evaluate it with --suite csts"
    ):
        run(Asked(GOLD), {"sts": ["STS12"]}, folder=folder.path, resamples=0)


def test_hidden_labels_cannot_be_scored(folder: Folder) -> None:
    write(folder.path, "validation", [-1] * 10)
    with pytest.raises(TertiumError, match="rows without labels"):
        values_of(Asked(GOLD), folder.path)


# careful labels


def test_careful_labels_beside_the_original_ones(csts: Path) -> None:
    careful = [1, 4, -1, -1, 3, 1, 5, 2, 3, -1]
    lines = "".join(f"{uid}\t{label}\n" for uid, label in enumerate(careful))
    (csts / "csts-val-reannotated.tsv").write_text(f"uid\treannotated-label\n{lines}")
    write(csts, "validation_reannotated", careful)
    scores = [1, 4, 5, 1, 4, 2, 4, 1, 3, 2]
    report = run(Asked(scores), {"csts": ["C-STS"]}, folder=csts, resamples=50)
    values = report["csts"].tasks[0].values
    kept = [at for at, label in enumerate(careful) if label > 0]
    ours, theirs, first = ([v[at] for at in kept] for v in (scores, careful, GOLD))
    found = values["careful"]
    assert (found["pairs"], found["left_out"]) == (7, 3)
    assert found["spearman"] == pytest.approx(100 * spearman(theirs, ours))
    assert found["original"] == pytest.approx(100 * spearman(first, ours))
    assert found["ceiling"] == pytest.approx(100 * spearman(first, theirs))
    assert found["interval"][0] <= found["spearman"] <= found["interval"][1]
    assert sum(entry["pairs"] for entry in found["types"].values()) == 7
    assert values["revised"]["spearman"] == found["spearman"]  # the same conditions here
    assert "ceiling" not in values["revised"]
    assert "ceiling there" in str(report) and "revised conditions" in report.to_markdown()
    json.dumps(report.to_json(), allow_nan=False)


def test_without_a_reannotation_nothing_is_said_of_it(csts: Path) -> None:
    assert not {"careful", "revised"} & values_of(Asked(GOLD), csts, resamples=0).keys()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 4], r"reannotated\.csv has 2 rows instead of 10\. Get the revised C-STS from"),
        ([-1] * 10, r"reannotated\.csv has no labels\. Get the revised C-STS from"),
    ],
)
def test_a_reannotation_of_something_else_is_refused_before_scoring(
    labels: list[int], message: str, csts: Path
) -> None:
    write(csts, "validation_reannotated", labels)

    class Unasked(Asked):
        def grade(self, triples: list[TextTriple], **options: Any) -> np.ndarray:
            raise AssertionError("scored in vain")

    with pytest.raises(TertiumError, match=message):
        values_of(Unasked(GOLD), csts, resamples=0)


# intervals


def test_rows_of_a_pair_are_drawn_together() -> None:
    groups = ["a", "a", "b", "b", "c", "c"]
    counts = clustered_counts(groups, resamples=50, seed=1)
    assert (counts[:, 0::2] == counts[:, 1::2]).all()
    assert (counts.sum(axis=1) == 6).all()


@given(seed=st.integers(0, 99))
def test_bootstrapped_pearson_is_pearson_of_the_repeated_rows(seed: int) -> None:
    draw = np.random.default_rng(seed)
    gold, predicted = draw.normal(size=(2, 8))
    counts = draw.integers(0, 3, size=(3, 8)).astype(np.int32)
    found = bootstrap_pearson(gold, predicted, counts)
    for row, value in zip(counts, found, strict=True):
        repeated = np.repeat(np.arange(8), row)
        assert value == pytest.approx(pearson(gold[repeated], predicted[repeated]), nan_ok=True)


# conditions


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("The number of dogs.", "number"),
        ("How many people are there?", "number"),
        ("THE COLOR OF THE SHIRT", "color"),
        ("The person's gender.", "gender and age"),
        ("What the rider is wearing.", "clothing"),
        ("The type of sport.", "sport and play"),
        ("The kind of animal", "animal"),
        ("The location", "place"),
        ("Countless things", "object"),
        ("The mood.", OTHER),
        ("", OTHER),
    ],
)
def test_types_of_conditions(condition: str, expected: str) -> None:
    assert condition_type(condition) == expected


def test_no_word_tells_two_types() -> None:
    words = [word for known in CONDITION_TYPES.values() for word in known]
    assert len(words) == len(set(words))


def test_sensitivity_by_hand() -> None:
    gold, predicted = [1.0, 5.0, 2.0, 4.0], [0.2, 0.6, 0.7, 0.3]
    found = condition_sensitivity(gold, predicted, ["a", "a", "b", "b"])
    g, p = np.array([-4.0, -2.0]), np.array([-0.4, 0.4])
    assert found.agreement == pytest.approx((p @ g) / np.sqrt((p @ p) * (g @ g)))
    assert found.direction == 0.5
    spread = (0.4 / np.std(predicted)) / (3.0 / np.std(gold))
    assert found.movement == pytest.approx(spread)


@given(seed=st.integers(0, 999), scale=st.floats(0.1, 9), shift=st.floats(-5, 5))
def test_sensitivity_knows_neither_scale_nor_order(seed: int, scale: float, shift: float) -> None:
    draw = np.random.default_rng(seed)
    gold, predicted = draw.integers(1, 6, 12).astype(float), draw.normal(size=12)
    groups = list(np.arange(12) // 2)
    one = condition_sensitivity(gold, predicted, groups)
    order = np.arange(12).reshape(6, 2)[:, ::-1].ravel()
    two = condition_sensitivity(gold[order], scale * predicted[order] + shift, groups)
    for name in ("movement", "agreement", "direction"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), nan_ok=True)
    perfect = condition_sensitivity(gold, gold, groups)
    if len({*np.diff(gold.reshape(6, 2)).ravel()} - {0.0}):
        assert perfect.movement == pytest.approx(1) and perfect.agreement == pytest.approx(1)
        assert perfect.direction == 1


def test_pairs_with_one_condition_say_nothing() -> None:
    found = condition_sensitivity([1, 2], [1, 2], ["a", "b"])
    assert found.pairs == 0 and np.isnan(found.movement)


# the file that C-STS's authors ask for


def test_predictions_in_the_official_form(csts: Path, tmp_path: Path) -> None:
    scores = [1 + 0.25 * at for at in range(10)]
    path = tmp_path / "predictions.json"
    assert write_predictions(Asked(scores), path, folder=csts) == 10
    assert json.loads(path.read_text()) == {str(at): score for at, score in enumerate(scores)}
    write_predictions(HashEncoder(), path, folder=csts)
    found = json.loads(path.read_text())
    assert list(found) == [str(at) for at in range(10)]
    assert all(1 <= score <= 5 for score in found.values())
    with pytest.raises(TertiumError, match=r"go to a \.json file"):
        write_predictions(HashEncoder(), tmp_path / "predictions.txt", folder=csts)
