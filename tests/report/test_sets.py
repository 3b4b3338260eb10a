from pathlib import Path

import numpy as np
import pytest

from tertium.errors import TertiumError
from tertium.report.data import main_set, read_benchmarks, read_own
from tests.recipes.toys import toy_benchmarks, toy_pairs, toy_triples

pytestmark = pytest.mark.filterwarnings("ignore:.*rows in.*are expected")


def test_own_pairs_and_triples(tmp_path: Path) -> None:
    files = [toy_pairs(tmp_path / "a.tsv"), toy_triples(tmp_path / "b.csv", pairs=4)]
    one, two = read_own(files, limit=100, seed=0)
    assert (one.name, one.conditions, len(one.gold), one.whole) == ("a.tsv", None, 12, 12)
    assert one.scale == (one.gold.min(), one.gold.max()) and one.sha256 is not None
    assert two.conditions is not None and len(two.triples) == 8
    assert two.triples[0] == (two.first[0], two.second[0], two.conditions[0])
    assert main_set([two, one]) is one and main_set([two]) is None


def test_pairs_that_are_drawn_stay_in_order(tmp_path: Path) -> None:
    file = toy_pairs(tmp_path / "a.tsv")
    (whole,) = read_own([file], limit=100, seed=0)
    (drawn,) = read_own([file], limit=5, seed=0)
    places = [whole.pairs.index(pair) for pair in drawn.pairs]
    assert len(drawn.gold) == 5 and drawn.whole == 12 and places == sorted(places)
    np.testing.assert_array_equal(drawn.gold, whole.gold[places])
    (again,) = read_own([file], limit=5, seed=0)
    assert again.pairs == drawn.pairs


def test_a_stated_scale_is_kept_and_checked(tmp_path: Path) -> None:
    file = toy_pairs(tmp_path / "a.tsv", *range(5))
    (seen,), (stated,) = (read_own([file], limit=9, seed=0, scale=s) for s in (None, (0.0, 6.0)))
    assert (seen.scale, seen.stated) == ((0.0, 4.0), False)
    assert (stated.scale, stated.stated) == ((0.0, 6.0), True)
    with pytest.raises(TertiumError, match="write a number from 0"):
        read_own([file], limit=9, seed=0, scale=(0.0, 3.0))


def test_the_same_name_twice_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = [toy_pairs(tmp_path / "a.tsv"), toy_pairs(tmp_path / "other" / "a.tsv")]
    one, two = read_own(files, limit=10, seed=0)
    assert one.name == "a.tsv" and two.name == str(files[1])


def test_a_file_without_grades_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n")
    with pytest.raises(TertiumError, match="needs graded pairs"):
        read_own([tmp_path / "a.txt"], limit=10, seed=0)


def test_benchmarks_and_those_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = toy_benchmarks(tmp_path / "data")
    (folder / "sts12.tsv").unlink()
    (folder / "sts12_raw.tsv").unlink()
    found, missing = read_benchmarks(["STS12", "STS-B", "C-STS"], folder=folder, limit=100, seed=0)
    assert [one.name for one in found] == ["STS-B", "C-STS"]
    assert [entry.section for entry in missing] == ["STS12"] and missing[0].reason
    stsb, csts = found
    assert stsb.scale == (0, 5) and stsb.may_be_shown and stsb.split == "test"
    assert csts.conditions is not None and not csts.may_be_shown and csts.split == "validation"
    np.testing.assert_array_equal(stsb.close, stsb.gold > 4)
    assert main_set([csts, stsb]) is stsb
