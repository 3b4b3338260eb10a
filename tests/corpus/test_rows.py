from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from tertium.corpus.inputs import read_vectors
from tertium.corpus.rows import Rows, unit
from tertium.errors import TertiumError
from tests.corpus.draws import all_cosines, clustered
from tests.fakes import HashEncoder
from tests.jobs.stubs import job, stub_model


@given(lengths=lists(integers(1, 9), min_size=1, max_size=5), seed=integers(0, 2**31))
def test_parts_are_one_matrix(lengths: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    parts = [3 * generator.standard_normal((n, 4)) for n in lengths]
    whole, rows = unit(np.concatenate(parts)), Rows(parts)
    assert len(rows) == len(whole) and rows.dimension == 4
    start, stop = sorted(generator.integers(0, len(whole) + 3, 2).tolist())
    np.testing.assert_array_equal(rows.block(start, stop), whole[start:stop])
    picks = generator.integers(0, len(whole), 7)
    np.testing.assert_array_equal(rows.take(picks), whole[picks])
    np.testing.assert_array_equal(np.concatenate([b for _, b in rows.blocks(3)]), whole)
    found = rows.similarity(picks[:-1], picks[1:])
    np.testing.assert_allclose(found, all_cosines(whole)[picks[:-1], picks[1:]], atol=1e-6)


def test_unit_vectors_are_not_copied() -> None:
    vectors = clustered(20)
    assert np.shares_memory(Rows([vectors], normalised=True).block(3, 9), vectors)
    assert not np.shares_memory(Rows([vectors]).block(3, 9), vectors)


def test_zeros_are_like_nothing() -> None:
    rows = Rows([np.array([[0, 0], [1, 0]], np.int8)])
    assert rows.similarity(np.array([0, 0, 1]), np.array([0, 1, 1])).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("v.txt", None, "read from .npy and .parquet files and from folders"),
        ("folder", None, "read from .npy"),
        ("missing.npy", None, "no such file"),
        ("text.npy", b"hello", "is not a .npy file"),
        ("empty.npy", b"", "is not a .npy file"),
        ("flat.npy", np.zeros(3), "not a matrix"),
        ("words.npy", np.array([["a"]]), "not a matrix"),
        ("short.npy", np.zeros((2, 4)), "2 vectors for 3 texts"),
    ],
)
def test_files_that_hold_no_vectors(
    tmp_path: Path, name: str, content: bytes | np.ndarray | None, said: str
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    with pytest.raises(TertiumError, match=said):
        read_vectors(path, texts=["a", "b", "c"])


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.array([{"a": 1}], object))
    with pytest.raises(TertiumError, match=r"is not a \.npy file"):
        read_vectors(tmp_path / "v.npy")


def test_a_folder_of_shards(tmp_path: Path) -> None:
    with pytest.raises(TertiumError, match=str(tmp_path)):
        read_vectors(tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_text("a\nb\nc\nd\ne\n")
    job(texts, tmp_path / "shards", model=stub_model(tmp_path / "model"), shard_rows=2)
    found = read_vectors(tmp_path / "shards", texts=["a", "b", "c", "d", "e"])
    np.testing.assert_array_equal(found, HashEncoder("model").encode(["a", "b", "c", "d", "e"]))
    with pytest.raises(TertiumError, match="5 vectors for 6 texts"):
        read_vectors(tmp_path / "shards", texts=list("abcdef"))
    for other in (list("abdce"), iter("abdce")):
        with pytest.raises(TertiumError, match="vector 3 is that of 'c', and text 3 is 'd'"):
            read_vectors(tmp_path / "shards", texts=other)


def test_a_text_that_no_file_can_hold_is_compared_as_it_was_stored(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a\ufffdb\n", encoding="utf-8")
    job(texts, tmp_path / "shards", model=stub_model(tmp_path / "model"))
    assert len(read_vectors(tmp_path / "shards", texts=["a\ud800b"])) == 1
