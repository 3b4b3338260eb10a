import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.evaluation import run
from tertium.evaluation.metrics import cosines, pearson, spearman
from tertium.evaluation.tasks.sts import subset_correlations
from tests.evaluation.conftest import Folder, Placed, by_angle
from tests.fakes import HashEncoder

# Ten pairs "A 0" and "b <degrees>": the wider the angle, the lower the cosine. The gold scores fall
# too, but for two neighbours exchanged and three turned round: squared rank differences 1+1+4+1+1.
GOLD = [4.5, 5, 4, 3.5, 3, 1.5, 2.5, 2, 1, 0.5]
TEN = [(gold, "A 0", f"b {8 * at}") for at, gold in enumerate(GOLD)]


def spearman_by_hand(squares: int, n: int) -> float:
    return 100 * (1 - 6 * squares / (n * (n**2 - 1)))


def test_a_zero_vector_has_cosine_zero_and_nan_counts_as_zero() -> None:
    first = [[0, 0], [3, 4], [np.nan, 1], [1, 1], [np.nan, np.nan]]
    second = [[1, 2], [4, 3], [0, 2], [-1, -1], [1, 0]]
    assert cosines(first, second) == pytest.approx([0, 24 / 25, 1, -1, 0])


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=8),
        min_size=1,
        max_size=4,
    )
)
def test_summaries_equal_loops(parts: list[list[tuple[int, int]]]) -> None:
    subsets = {str(at): tuple(np.array(part, float).T) for at, part in enumerate(parts)}
    found = subset_correlations(subsets)
    pairs = [pair for part in parts for pair in part]
    for name, measure in {"spearman": spearman, "pearson": pearson}.items():
        each = [measure(*zip(*part, strict=True)) for part in parts]
        sizes = [len(part) for part in parts]
        expected = {
            "all": measure(*zip(*pairs, strict=True)),
            "mean": sum(each) / len(each),
            "wmean": sum(n * v for n, v in zip(sizes, each, strict=True)) / sum(sizes),
        }
        for summary, value in expected.items():
            assert found[summary][name] == pytest.approx(value, abs=1e-12, nan_ok=True)
        for subset, value, size in zip(subsets, each, sizes, strict=True):
            assert found["subsets"][subset][name] == pytest.approx(value, nan_ok=True)
            assert found["subsets"][subset]["pairs"] == size


def test_ten_rows_by_hand(folder: Folder) -> None:
    folder.sts("stsb.tsv", TEN, part="test")
    report = run(Placed(by_angle), {"sts": ["STS-B"]}, folder=folder.path, resamples=50)
    (task,) = report["sts"].tasks
    assert task.values["spearman"] == pytest.approx(spearman_by_hand(8, 10))
    cosine = [np.cos(np.deg2rad(8 * at)) for at in range(10)]
    assert task.values["pearson"] == pytest.approx(100 * np.corrcoef(GOLD, cosine)[0, 1])
    assert task.values["pairs"] == 10
    low, high = task.values["interval"]
    assert low < task.values["spearman"] < high <= 100
    assert "subsets" not in task.values
    assert (task.split, task.pooling, task.data["text"]) == ("test", "mean", "senteval")


def test_subsets_of_a_year_are_told_apart(folder: Folder) -> None:
    rows = [(name, *row) for name, part in (("x", TEN[:4]), ("y", TEN[4:])) for row in part]
    folder.write("sts14.tsv", "subset score sentence1 sentence2", rows)
    report = run(Placed(by_angle), {"sts": ["STS14"]}, folder=folder.path, resamples=0)
    values = report["sts"].tasks[0].values
    parts = {"x": spearman_by_hand(2, 4), "y": spearman_by_hand(6, 6)}
    assert values["spearman"] == pytest.approx(spearman_by_hand(8, 10))
    assert values["subsets"]["y"]["pairs"] == 6
    assert {n: v["spearman"] for n, v in values["subsets"].items()} == pytest.approx(parts)
    assert values["mean"]["spearman"] == pytest.approx((parts["x"] + parts["y"]) / 2)
    assert values["wmean"]["spearman"] == pytest.approx((4 * parts["x"] + 6 * parts["y"]) / 10)
    assert values["interval"] is None


def test_leak_free_leaves_out_known_pairs_in_any_order_and_spelling(folder: Folder) -> None:
    folder.sts("stsb.tsv", TEN, part="test")
    turned = [("B 40!", "a0"), ("a 0.", "b-48"), ("b 56", "A 0"), ("another", "pair")]
    known = folder.write("known.tsv", "sentence1 sentence2", turned)
    tasks, model = {"sts": ["STS-B"]}, Placed(by_angle)
    report = run(model, tasks, folder=folder.path, resamples=0, exclude=[str(known)])
    expected = {"spearman": pytest.approx(spearman_by_hand(2, 7)), "pairs": 7, "removed": 3}
    assert report["sts"].tasks[0].values["leak_free"] == expected
    assert report["sts"].average["leak_free"] == {"spearman": expected["spearman"], "pairs": 7}
    everything = f"{folder.path / 'stsb.tsv'}:test"
    report = run(model, tasks, folder=folder.path, resamples=0, exclude=[everything])
    leak_free = {"spearman": None, "pairs": 0, "removed": 10}
    assert report["sts"].tasks[0].values["leak_free"] == leak_free


def test_a_baseline_is_tested_in_pairs(folder: Folder) -> None:
    rows = [(5 - at / 20, "A 0", f"b {at}") for at in range(80)]
    folder.sts("sts12.tsv", rows)
    folder.sts("sts13.tsv", rows[::2])
    options = {"folder": folder.path, "resamples": 199}
    tasks = {"sts": ["STS12", "STS13"]}
    good, other = Placed(by_angle, "good"), HashEncoder("other")

    same = run(good, tasks, baseline=Placed(by_angle, "twin"), **options)["sts"]
    for entry in (*(task.values["baseline"] for task in same.tasks), same.average["baseline"]):
        assert (entry["model"], entry["difference"], entry["p_value"]) == ("twin", 0, 1)
        assert entry["interval"] == [0, 0]

    better = run(good, tasks, baseline=other, **options)["sts"]
    alone = run(other, tasks, **options)["sts"]
    for task, reference in zip(better.tasks, alone.tasks, strict=True):
        entry = task.values["baseline"]
        assert entry["value"] == pytest.approx(reference.values["spearman"])
        assert entry["difference"] == pytest.approx(100 - entry["value"])
        assert entry["p_value"] == pytest.approx(2 / 200)
        assert 0 < entry["interval"][0] < entry["difference"] < entry["interval"][1]
    assert better.average["baseline"]["value"] == pytest.approx(alone.average["average"])
    assert better.average["baseline"]["p_value"] == pytest.approx(2 / 200)


def test_a_baseline_without_a_correlation_is_not_significant(folder: Folder) -> None:
    folder.sts("sts12.tsv", TEN)
    constant = Placed(lambda text: (1, 0))
    report = run(
        Placed(by_angle), {"sts": ["STS12"]}, folder=folder.path, resamples=20, baseline=constant
    )
    entry = report["sts"].tasks[0].values["baseline"]
    assert [entry[key] for key in ("value", "difference", "interval", "p_value")] == [None] * 4
