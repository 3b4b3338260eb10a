import numpy as np
import pytest

from tertium.evaluation.metrics import holm, spearman
from tertium.report.data import GradedSet
from tertium.report.model_report import Facts, ModelReport, Scoring
from tertium.report.results import AVERAGE, differences, measure

FACTS = Facts("encoder", "mean", 4, (-1.0, 1.0), 1, 10, None, "", ())


def graded(name: str, count: int, seed: int, *, conditions: bool = False) -> GradedSet:
    texts = tuple(f"{name} {at // (2 if conditions else 1)}" for at in range(count))
    gold = np.random.default_rng(seed).uniform(0, 5, count)
    return GradedSet(
        name,
        texts,
        tuple(text + "!" for text in texts),
        gold,
        (0.0, 5.0),
        f"{name}.tsv",
        None,
        count,
        conditions=("x", "y") * (count // 2) if conditions else None,
    )


def report_of(label: str, sets: list[GradedSet], noise: float) -> ModelReport:
    draw = np.random.default_rng(len(label))
    values = {one.name: one.gold + noise * draw.normal(size=len(one.gold)) for one in sets}
    report = ModelReport(label, label, FACTS)
    report.scorings = [Scoring(label, "cosine", values, (-1.0, 1.0))]
    return report


def test_figures_intervals_and_differences() -> None:
    sets = [graded("one", 80, 0), graded("two", 60, 1)]
    reports = [report_of("good", sets, 0.5), report_of("poor", sets, 6.0)]
    found = measure(reports, sets, resamples=300, seed=0)
    assert list(found) == [AVERAGE, "one", "two"]
    for one in sets:
        for report in reports:
            entry = found[one.name][report.label]
            expected = 100 * spearman(one.gold, report.scorings[0].values[one.name])
            assert entry.spearman == pytest.approx(expected)
            assert entry.interval is not None
            assert entry.interval[0] < expected < entry.interval[1]
    good, poor = found[AVERAGE].values()
    assert list(found[AVERAGE]) == ["good", "poor"]
    assert good.spearman == pytest.approx(
        np.mean([found[one.name]["good"].spearman for one in sets])  # type: ignore[arg-type]
    )
    assert good.pairs == 140
    (entry,) = differences(found[AVERAGE])
    assert entry["models"] == ["good", "poor"]
    assert good.spearman is not None and poor.spearman is not None
    assert entry["difference"] == pytest.approx(good.spearman - poor.spearman)
    assert entry["p_value"] < 0.01 and entry["interval"][0] > 0


def test_a_model_is_no_better_than_itself() -> None:
    sets = [graded("one", 40, 0)]
    reports = [report_of("one", sets, 1.0), report_of("two", sets, 1.0)]
    reports[1].scorings[0].values["one"][:] = reports[0].scorings[0].values["one"]
    (entry,) = differences(measure(reports, sets, resamples=50, seed=0)["one"])
    assert entry["difference"] == 0 and entry["p_value"] == 1 and entry["interval"] == [0, 0]


def test_constant_scores_have_no_figure() -> None:
    sets = [graded("one", 20, 0)]
    report = report_of("one", sets, 1.0)
    report.scorings[0].values["one"][:] = 1.0
    (entry,) = measure([report], sets, resamples=20, seed=0)["one"].values()
    assert entry.spearman is None and entry.interval is None
    assert differences({"one": entry, "two": entry}) == []


def test_without_the_pairs_of_the_card() -> None:
    sets = [graded("one", 30, 0)]
    report = report_of("one", sets, 2.0)
    seen = np.arange(30) < 10
    report.seen = {"one": seen}
    (entry,) = measure([report], sets, resamples=20, seed=0)["one"].values()
    values = report.scorings[0].values["one"]
    assert entry.leak_free is not None
    assert (entry.leak_free["removed"], entry.leak_free["pairs"]) == (10, 20)
    assert entry.leak_free["spearman"] == pytest.approx(
        100 * spearman(sets[0].gold[~seen], values[~seen])
    )


def test_conditions_are_drawn_with_their_sentences() -> None:
    """Rows of one pair come together, which makes the interval wider than single rows would."""
    sets = [graded("one", 60, 0, conditions=True)]
    assert AVERAGE not in measure([report_of("one", sets, 1.0)], sets, resamples=20, seed=0)


def test_holm() -> None:
    assert holm([]) == []
    assert holm([0.5]) == [0.5]
    np.testing.assert_allclose(holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
