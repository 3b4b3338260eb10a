"""What other processes do to an index; they are killed, or race each other."""

import os
import signal
import sys
import threading
from pathlib import Path

from tqdm import tqdm

from tertium.corpus import Index, append
from tests.fakes import HashEncoder

BEFORE = 40
ADDED = 25
tqdm.set_lock(threading.RLock())  # its own would outlive a process that is killed
_CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")


def texts(start: int, count: int) -> list[str]:
    return [f"text {number}" for number in range(start, start + count)]


def make(folder: Path) -> None:
    """An index with a graph, two segments, and room for a merge of one of them."""
    append.EXACT_SEARCH = 20
    index = Index.build(folder, texts(0, BEFORE - 10), HashEncoder())
    index.add(texts(BEFORE - 10, 10))


def add_and_die(folder: Path, at: int) -> None:
    """Add texts, and be killed at the change number ``at`` of a file of the index."""
    append.EXACT_SEARCH = 20
    index = Index.open(folder, HashEncoder())
    seen = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        reads = event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR)
        if event in _CHANGES and not reads and str(folder) in str(arguments[0]):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    index.add(texts(BEFORE, ADDED))


def add_for_ever(folder: Path) -> None:
    """Add texts until someone puts an end to it."""
    append.EXACT_SEARCH = 20
    index = Index.open(folder, HashEncoder())
    while True:
        index.add(texts(len(index), 7))


def add_some(folder: Path, times: int) -> None:
    """Add a few texts several times."""
    append.EXACT_SEARCH = 20
    index = Index.open(folder, HashEncoder())
    for _ in range(times):
        index.add(["some", "more"])


def build(folder: Path) -> None:
    """Build an index that takes a while."""
    Index.build(folder, texts(0, 20_000), HashEncoder())
