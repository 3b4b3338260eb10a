from pathlib import Path

import pytest

from tertium.data import DataError, load
from tertium.data.senteval import FILES, SUBSETS, parse_sick, parse_sts, parse_stsb
from tertium.errors import TertiumError

from .conftest import Write


def test_sts_drops_ungraded_pairs_and_sorts_by_length_then_score() -> None:
    lines = ["a b\tc", "a\tb c", "d\te f", "x  y\tz", "g\th\tsource"]
    assert parse_sts(lines, ["1", "2.5", "0.5", "", "3"]) == [
        ("g", "h", 3.0),
        ("d", "e f", 0.5),
        ("a", "b c", 2.5),
        ("a b", "c", 1.0),
    ]


def test_stsb_and_sick_keep_their_order_and_single_spaces() -> None:
    assert parse_stsb(["g\tf\ty\t1\t3.5\tA  man.\tB \tmore\tcolumns"]) == [("A man.", "B", 3.5)]
    assert parse_sick(["header", "1\tA\tB\t4.1\tNEUTRAL"]) == [("A", "B", 4.1)]


def test_bad_lines_are_named() -> None:
    with pytest.raises(DataError, match=r"f\.txt:2: column 'score': 'x'"):
        parse_sts(["a\tb", "c\td"], ["1", "x"], file="f.txt")
    with pytest.raises(DataError, match=r"f\.csv:1: .*too few columns"):
        parse_stsb(["a\tb"], file="f.csv")
    with pytest.raises(DataError, match=r"f\.txt:2: column 'score': '0\.5': .*from 1 to 5"):
        parse_sick(["header", "1\tA\tB\t0.5\tNEUTRAL"], file="f.txt", scale=(1, 5))
    with pytest.raises(TertiumError, match="2 lines, but 1 scores"):
        parse_sts(["a\tb", "c\td"], ["1"])


def write_year(write: Write, root: str, year: str) -> None:
    for subset in SUBSETS[year]:
        write(f"{root}/STS/{year}-en-test/STS.input.{subset}.txt", f"{subset} one\ttwo\na\tb\n")
        write(f"{root}/STS/{year}-en-test/STS.gs.{subset}.txt", "2.5\n\n")


@pytest.mark.parametrize("root", [".", "downstream", "data/downstream"])
@pytest.mark.parametrize("year", SUBSETS)
def test_years_are_read_with_their_subsets(
    root: str, year: str, write: Write, tmp_path: Path
) -> None:
    write_year(write, root, year)
    with pytest.warns(UserWarning, match=r"rows in .*, but .* are expected"):
        loaded = load(year, folder=tmp_path)
    assert [row.subset for row in loaded.rows] == list(SUBSETS[year])
    assert loaded.rows[0].sentence1 == f"{SUBSETS[year][0]} one"
    assert loaded.sha256 and loaded.source.endswith(f"{year}-en-test")


def test_a_year_with_a_file_missing_says_which(write: Write, tmp_path: Path) -> None:
    write_year(write, ".", "STS13")
    (tmp_path / "STS/STS13-en-test/STS.input.FNWN.txt").unlink()
    with pytest.raises(TertiumError, match=r"STS13 lacks .*STS\.input\.FNWN\.txt"):
        load("STS13", folder=tmp_path)


@pytest.mark.parametrize("split", FILES["STS-B"])
def test_sts_benchmark_is_read(split: str, write: Write, tmp_path: Path) -> None:
    write(f"STS/STSBenchmark/sts-{split}.csv", f'g\tf\ty\t1\t3.5\t"{split}\tB "quoted\n')
    with pytest.warns(UserWarning, match="are expected"):
        loaded = load("STS-B", split=split, folder=tmp_path)
    assert [(row.sentence1, row.sentence2) for row in loaded.rows] == [(f'"{split}', 'B "quoted')]


def test_sick_is_read_by_split_and_whole(write: Write, tmp_path: Path) -> None:
    for name in ("train", "trial", "test_annotated"):
        write(f"SICK/SICK_{name}.txt", f"header\n1\t{name}\tB\t4.1\tNEUTRAL\n")
    with pytest.warns(UserWarning, match="are expected"):
        dev = load("SICK-R", split="dev", folder=tmp_path)
    with pytest.warns(UserWarning, match="are expected"):
        whole = load("SICK-R", split="all", folder=tmp_path)
    assert [row.sentence1 for row in dev.rows] == ["trial"]
    assert [row.sentence1 for row in whole.rows] == ["train", "trial", "test_annotated"]
    assert dev.sha256 != whole.sha256


@pytest.mark.data
@pytest.mark.parametrize("year", SUBSETS)
def test_both_layouts_hold_the_same_rows(
    year: str, write: Write, tmp_path: Path, data_folder: Path
) -> None:
    flat = load(year, folder=data_folder).rows
    for subset in SUBSETS[year]:
        rows = [row for row in flat if row.subset == subset]
        stem = f"STS/{year}-en-test/STS"
        texts = "".join(f"{row.sentence1}\t{row.sentence2}\n" for row in rows)
        write(f"{stem}.input.{subset}.txt", texts)
        write(f"{stem}.gs.{subset}.txt", "".join(f"{row.score}\n" for row in rows))
    assert sorted(map(repr, load(year, folder=tmp_path).rows)) == sorted(map(repr, flat))
