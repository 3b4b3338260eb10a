"""Whatever happens to a process that writes, the index stays what it was, or becomes the next."""

import multiprocessing
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from tertium.corpus import Index, write
from tertium.errors import TertiumError
from tests.corpus import children
from tests.fakes import HashEncoder

pytestmark = pytest.mark.attack
# Children are forked from a process that has imported everything: quick, and free of our threads.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.corpus.children"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "index"
    limit = write.EXACT_SEARCH
    children.make(folder)
    write.EXACT_SEARCH = limit
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "index"))


def check(folder: Path) -> int:
    """Every text is there once, under its id, and is found by its vector; gives their number."""
    index = Index.open(folder, HashEncoder())
    index.check()
    entries = list(index)
    assert len(entries) == len(index) == len({entry.id for entry in entries})
    rows = [row for e in entries for row in range(e.first, e.first + e.passages)]
    assert len(set(rows)) == len(rows) == index.manifest.rows - index.manifest.dead
    for entry, hits in zip(
        entries, index.search_many([e.text for e in entries], top_k=1), strict=True
    ):
        assert entry.text.removesuffix(" again") == f"text {int(entry.id) - 1}"
        assert (hits[0].id, hits[0].text) == (entry.id, entry.text)
        assert hits[0].score == pytest.approx(1, abs=1e-6)
    worded = index._snapshot.store.execute("SELECT count(*) FROM words WHERE words MATCH 'text'")
    assert worded == [(len(entries),)]
    return len(entries)


def left_over(folder: Path) -> set[str]:
    index = Index.open(folder)
    named = {name.split("/")[0] for name in index.manifest.files()}
    found = {path.name for path in folder.iterdir()} - named
    return {name for name in found if name != ".lock" and not name.startswith("index.sqlite")}


def killed_at_any_moment(folder: Path, what: str, trials: int) -> None:
    generator = np.random.default_rng()
    counts = [children.BEFORE]
    for _ in range(trials):
        child = CONTEXT.Process(target=children.change_for_ever, args=(folder, what))
        child.start()
        time.sleep(0.05 + generator.uniform(0, 0.4))
        assert child.is_alive()
        child.kill()
        child.join(60)
        counts.append(check(folder))
    # An update changes no number, and nothing else takes away what it did not add.
    assert min(counts) >= children.BEFORE if what != "delete" else min(counts) > 0
    assert what != "update" or set(counts) == {children.BEFORE}
    assert what != "add" or all((count - children.BEFORE) % 7 == 0 for count in counts)
    Index.open(folder, HashEncoder()).add(["text of one"], ids=["one"])
    assert left_over(folder) == set()


@pytest.mark.parametrize("what", ["add", "delete", "update", "compact"])
def test_killed(folder: Path, what: str) -> None:
    killed_at_any_moment(folder, what, 2)


@pytest.mark.long
@pytest.mark.parametrize("what", ["add", "delete", "update", "compact"])
def test_killed_thirty_times(folder: Path, what: str) -> None:
    killed_at_any_moment(folder, what, 30)


@pytest.mark.parametrize("what", ["add", "compact"])
def test_readers_see_a_whole_index_while_another_writes(folder: Path, what: str) -> None:
    child = CONTEXT.Process(target=children.change_for_ever, args=(folder, what))
    child.start()
    try:
        counts = [check(folder) for _ in range(6)]
    finally:
        child.kill()
        child.join(60)
    assert what == "compact" or counts == sorted(counts)


def test_an_open_index_stays_what_it_was_while_files_go(folder: Path) -> None:
    before = Index.open(folder, HashEncoder())
    names, held = set(before.manifest.files()), [entry.text for entry in before]
    other = Index.open(folder, HashEncoder())
    other.delete([entry.id for entry in before][:30])
    other.compact()
    assert not all((folder / name).exists() for name in names)
    assert [entry.text for entry in before] == held
    assert [hits[0].text for hits in before.search_many(held, top_k=1)] == held
    before.refresh()
    assert len(before) == len(held) - 30


def test_writers_take_turns(folder: Path) -> None:
    writers = [CONTEXT.Process(target=children.add_some, args=(folder, 4)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    index = Index.open(folder, HashEncoder())
    index.check()
    entries = list(index)
    assert [entry.id for entry in entries] == [str(at + 1) for at in range(len(index))]
    assert [entry.text for entry in entries[children.BEFORE :]] == ["some", "more"] * 12


def test_a_killed_build_can_be_begun_anew(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    child = CONTEXT.Process(target=children.build, args=(folder,))
    child.start()
    until = time.monotonic() + 30
    while not list(folder.glob("vectors-*")) and time.monotonic() < until:
        time.sleep(0.001)
    child.kill()
    child.join(60)
    with pytest.raises(TertiumError, match="holds no index"):
        Index.open(folder)
    index = Index.build(folder, ["a", "b"], HashEncoder())
    assert len(index) == 2 and left_over(folder) == set()


def test_a_full_disk_in_the_middle_of_a_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says so itself: its file may have no more pages."""
    connect = sqlite3.connect

    def small(*args: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        return connection

    index = Index.open(folder, HashEncoder())
    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(TertiumError, match="no space left on this disk"):
        index.add([f"text {at} " + "x" * 5000 for at in range(50)])
    monkeypatch.undo()
    assert check(folder) == children.BEFORE
    assert left_over(folder) == set()
