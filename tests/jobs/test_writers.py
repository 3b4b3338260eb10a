import csv
import errno
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tertium.data.readers import read_rows
from tertium.data.rows import Pair
from tertium.errors import DiskFullError, MissingExtraError, TertiumError
from tertium.jobs import writers
from tertium.jobs.writers import write_scores, write_vectors
from tertium.types import TextPair
from tests.fakes import HashEncoder

TEXTS = ["one", "two", "", "one", "üñí 🙂", 'a,b\t"c"']
PAIRS = [("one", "two"), ("a, b", 'she said "no"'), ("üñí", "🙂"), ("x", "x")]


class Vectors(HashEncoder):
    """The hash encoder with the one option that writing needs; it may fail midway."""

    def __init__(self, fail_after: int | None = None) -> None:
        super().__init__()
        self.fail_after = fail_after
        self.windows: list[int] = []

    def encode(
        self, texts: Iterable[str], *, normalize: bool = False, **options: object
    ) -> np.ndarray:
        if self.fail_after is not None and len(self.windows) >= self.fail_after:
            raise RuntimeError("out of memory")
        self.windows.append(len(list(texts)))
        rows = super().encode(list(texts))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize else rows


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_WINDOW", 2)


def read_vectors(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.load(path)
    column = pq.read_table(path).column("embedding").to_pylist()
    return np.array(column, np.float32).reshape(len(column), 16)


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors_in_order_and_window_by_window(
    tmp_path: Path, ending: str, normalize: bool
) -> None:
    encoder, output = Vectors(), tmp_path / f"deep/out{ending}"
    assert write_vectors(encoder, lambda: iter(TEXTS), output, normalize=normalize) == 6
    np.testing.assert_array_equal(
        read_vectors(output), Vectors().encode(TEXTS, normalize=normalize)
    )
    assert encoder.windows == [2, 2, 2]
    if ending == ".parquet":
        assert pq.read_table(output).column("text").to_pylist() == TEXTS


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_no_text_gives_a_file_without_rows(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"out{ending}"
    assert write_vectors(Vectors(), lambda: iter(()), output) == 0
    assert read_vectors(output).shape == (0, 16)


def read_scores(path: Path) -> list[tuple[str, str, float]]:
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    else:
        quoting = csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL
        delimiter = "\t" if path.suffix == ".tsv" else ","
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter=delimiter, quoting=quoting))
    return [(row["sentence1"], row["sentence2"], float(row["similarity"])) for row in rows]


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_scores_beside_their_pairs(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"out{ending}"
    assert write_scores(Vectors(), iter(PAIRS), output) == 4
    rows = read_scores(output)
    assert [row[:2] for row in rows] == PAIRS
    np.testing.assert_allclose([row[2] for row in rows], Vectors().score(PAIRS), atol=1e-6)


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_our_own_reader_takes_what_was_written(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"out{ending}"
    write_scores(Vectors(), PAIRS, output)
    assert [(row.sentence1, row.sentence2) for row in read_rows(output, Pair)] == PAIRS


def test_a_field_of_a_tsv_holds_neither_tab_nor_line_break(tmp_path: Path) -> None:
    write_scores(Vectors(), [("a\tb", "c\r\nd")], tmp_path / "out.tsv")
    assert read_scores(tmp_path / "out.tsv")[0][:2] == ("a b", "c d")


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_no_pair_gives_a_file_without_rows(tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"out{ending}"
    assert write_scores(Vectors(), iter(()), output) == 0
    assert read_scores(output) == []


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_vectors_are_whole_or_absent(tmp_path: Path, ending: str, before: bytes | None) -> None:
    output = tmp_path / f"out{ending}"
    if before is not None:
        output.write_bytes(before)
    with pytest.raises(RuntimeError, match="out of memory"):
        write_vectors(Vectors(fail_after=1), lambda: iter(TEXTS), output)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".parquet"])
def test_scores_are_whole_or_absent(tmp_path: Path, ending: str) -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        write_scores(Vectors(fail_after=3), PAIRS, tmp_path / f"out{ending}")
    assert list(tmp_path.iterdir()) == []


def test_pairs_are_read_window_by_window(tmp_path: Path) -> None:
    pulled: list[int] = []

    def pairs() -> Iterator[TextPair]:
        for at in range(5):
            pulled.append(at)
            yield "a", str(at)

    class Scorer(Vectors):
        def score(self, pairs: Iterable[TextPair], **options: object) -> np.ndarray:
            assert len(pulled) <= 2 * (len(self.windows) // 2 + 1)
            return super().score(pairs)

    assert write_scores(Scorer(), pairs(), tmp_path / "out.tsv") == 5


def test_an_unknown_ending_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=r"\.npy or \.parquet"):
        write_vectors(Vectors(), lambda: iter(TEXTS), tmp_path / "out.txt")
    with pytest.raises(TertiumError, match=r"\.tsv, \.csv, \.jsonl or \.parquet"):
        write_scores(Vectors(), PAIRS, tmp_path / "out.npy")
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", find)
    for write in (
        lambda: write_vectors(Vectors(), lambda: iter(TEXTS), tmp_path / "out.parquet"),
        lambda: write_scores(Vectors(), PAIRS, tmp_path / "out.parquet"),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'tertium\[scale\]'"):
            write()


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    encoder = Vectors()
    with pytest.raises(DiskFullError, match=r"x\.npy: no space left on this disk"):
        write_vectors(encoder, lambda: iter(TEXTS), tmp_path / "x.npy")
    assert list(tmp_path.iterdir()) == [] and encoder.windows == []  # before any work
