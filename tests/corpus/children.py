"""What other processes do to an index; they are killed, or race each other."""

import threading
from pathlib import Path

from tqdm import tqdm

from tertium.corpus import Index, write
from tests.fakes import HashEncoder

BEFORE = 40
tqdm.set_lock(threading.RLock())  # its own would outlive a process that is killed


def texts(start: int, count: int) -> list[str]:
    return [f"text {number}" for number in range(start, start + count)]


def make(folder: Path) -> None:
    """An index with a graph and two segments."""
    write.EXACT_SEARCH = 20
    index = Index.build(folder, texts(0, BEFORE - 10), HashEncoder())
    index.add(texts(BEFORE - 10, 10))


def change_for_ever(folder: Path, what: str) -> None:
    """Add, delete, update or compact until someone puts an end to it.

    The text of id n is always ``text n-1``, perhaps with a turn: ``text n-1 again``.
    """
    write.EXACT_SEARCH = 20
    index = Index.open(folder, HashEncoder())
    turn = 0
    while True:
        turn += 1
        first = max(int(entry.id) for entry in index)
        if what == "add":
            index.add(texts(first, 7))
        elif what == "delete":
            index.add(texts(first, 9))
            index.delete([str(first - at) for at in range(0, 12, 3) if str(first - at) in index])
        elif what == "update":
            again = " again" if turn % 2 else ""
            names = [entry.id for entry in index][:9]
            index.update([f"text {int(n) - 1}{again}" for n in names], ids=names)
        else:
            index.add(texts(first, 5))
            index.delete([str(first + 2), str(first + 4)])
            index.compact()


def add_some(folder: Path, times: int) -> None:
    """Add a few texts several times."""
    write.EXACT_SEARCH = 20
    index = Index.open(folder, HashEncoder())
    for _ in range(times):
        index.add(["some", "more"])


def build(folder: Path) -> None:
    """Build an index that takes a while."""
    Index.build(folder, texts(0, 20_000), HashEncoder())
