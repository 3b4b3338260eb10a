"""Whatever happens to a process that writes, the index stays what it was, or becomes more."""

import multiprocessing
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from tertium.corpus import Index, append
from tertium.errors import TertiumError
from tertium.files import sha256
from tertium.records import record
from tests.corpus import children
from tests.fakes import HashEncoder

pytestmark = pytest.mark.attack
# Children are forked from a process that has imported everything: quick, and free of our threads.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.corpus.children"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "index"
    limit = append.EXACT_SEARCH
    children.make(folder)
    append.EXACT_SEARCH = limit
    return folder


def check(folder: Path) -> int:
    """Every text is there, under its id, and is found by its vector; gives their number."""
    index = Index.open(folder, HashEncoder())
    index.check()
    for number, hits in enumerate(index.search_many(children.texts(0, len(index)), k=1)):
        assert (hits[0].id, hits[0].text) == (str(number + 1), f"text {number}")
        assert hits[0].score == pytest.approx(1, abs=1e-6)
    return len(index)


def left_over(folder: Path) -> set[str]:
    named = {name.split("/")[0] for name in Index.open(folder).manifest.files()}
    return {path.name for path in folder.iterdir()} - named - {"manifest.json", ".lock"}


def test_killed_at_every_change_of_a_file(whole: Path, tmp_path: Path) -> None:
    counts, codes = [], []
    for at in range(1, 1000):
        folder = tmp_path / f"index-{at}"
        shutil.copytree(whole, folder)
        child = CONTEXT.Process(target=children.add_and_die, args=(folder, at))
        child.start()
        child.join(60)
        codes.append(child.exitcode)
        counts.append(check(folder))
        assert Index.open(folder, HashEncoder()).add(["one"], ids=["more"]) == 1
        assert left_over(folder) == set()
        assert len(Index.open(folder)) == counts[-1] + 1
        shutil.rmtree(folder)
        if child.exitcode == 0:
            break
    assert codes[:-1] == [-9] * (len(codes) - 1) and len(codes) > 15
    assert counts == sorted(counts)  # before a certain change nothing is seen, after it everything
    assert set(counts) == {children.BEFORE, children.BEFORE + children.ADDED}


def test_killed_at_any_moment(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    shutil.copytree(whole, folder)
    generator = np.random.default_rng()
    counts = [children.BEFORE]
    for _ in range(6):
        child = CONTEXT.Process(target=children.add_for_ever, args=(folder,))
        child.start()
        time.sleep(0.1 + generator.uniform(0, 0.4))
        assert child.is_alive()
        child.kill()
        child.join(60)
        counts.append(check(folder))
        assert (counts[-1] - counts[-2]) % 7 == 0 and counts[-1] >= counts[-2]
    Index.open(folder, HashEncoder()).add(["one"])
    assert left_over(folder) == set()


def test_readers_see_a_whole_index_while_others_add(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    shutil.copytree(whole, folder)
    child = CONTEXT.Process(target=children.add_for_ever, args=(folder,))
    child.start()
    try:
        counts = [check(folder) for _ in range(15)]
    finally:
        child.kill()
        child.join(60)
    assert counts == sorted(counts)


def test_a_check_sees_what_others_have_merged_meanwhile(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    shutil.copytree(whole, folder)
    index = Index.open(folder, HashEncoder())
    before = set(index.manifest.files())
    Index.open(folder, HashEncoder()).add(children.texts(children.BEFORE, 25))
    assert not all((folder / name).exists() for name in before)
    index.check()
    assert len(index) == children.BEFORE + 25


def test_a_check_begins_again_where_files_go_while_it_reads(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(whole, folder)
    index, read = Index.open(folder, HashEncoder()), list[Path]()

    def hashed(path: Path) -> str:
        read.append(path)
        if len(read) == 2:
            with monkeypatch.context() as patch:
                patch.setattr(record, "sha256", sha256)
                Index.open(folder, HashEncoder()).add(children.texts(children.BEFORE, 12))
        return sha256(path)

    monkeypatch.setattr(record, "sha256", hashed)
    index.check()
    assert len(index) == children.BEFORE + 12
    assert len(read) == len(set(read))  # what is there still is not read twice


def test_writers_take_turns(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    shutil.copytree(whole, folder)
    writers = [CONTEXT.Process(target=children.add_some, args=(folder, 8)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    index = Index.open(folder, HashEncoder())
    index.check()
    assert len(index) == children.BEFORE + 3 * 8 * 2
    entries = [index._snapshot.entry(at) for at in range(len(index))]
    assert [entry.id for entry in entries] == [str(at + 1) for at in range(len(index))]
    assert [entry.text for entry in entries[children.BEFORE :]] == ["some", "more"] * 24


def test_a_killed_build_can_be_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    child = CONTEXT.Process(target=children.build, args=(folder,))
    child.start()
    while not (folder / "segment-000001" / "vectors.npy").exists():
        time.sleep(0.001)
    child.kill()
    child.join(60)
    with pytest.raises(TertiumError, match="holds no index"):
        Index.open(folder)
    index = Index.build(folder, ["a", "b"], HashEncoder())
    assert len(index) == 2 and left_over(folder) == set()
