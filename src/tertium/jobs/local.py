"""Workers as processes of this machine, each with a pipe of its own.

A pipe between two processes has no lock that a killed worker could take with it, as a queue
shared by all would.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tertium.errors import TertiumError
from tertium.jobs.shards import Done
from tertium.jobs.tasks import TaskQueue
from tertium.jobs.work import Task, Work, Worker, thread_environment

__all__ = ["Processes"]

START_METHOD = "spawn"  # nothing of this process is taken along, no lock and no thread
_PATIENCE = 5  # seconds for a worker to end by itself


@dataclass
class _Member:
    process: Any  # of the chosen start method
    connection: Connection
    ready: bool = False
    task: Task | None = None
    advanced: int = 0  # rows of the task that the bar already shows


class Processes:
    """A fixed number of worker processes; one that ends early is replaced.

    Args:
        work: what they do.
        folder: where they write.
        count: how many.
        start_method: of ``multiprocessing`` (default: ``START_METHOD``).
    """

    def __init__(
        self, work: Work, folder: Path, *, count: int, start_method: str | None = None
    ) -> None:
        self._work = work
        self._folder = folder
        self._count = count
        self._context: Any = multiprocessing.get_context(start_method or START_METHOD)

    def run(
        self,
        tasks: Iterator[Task],
        *,
        finished: Callable[[Done], None],
        advanced: Callable[[int], object],
    ) -> None:
        """Make every task; ``finished`` hears of each shard, ``advanced`` of rows in between."""
        queue = TaskQueue(tasks)
        members = [self._start() for _ in range(self._count)]
        try:
            while True:
                for member in members:
                    if member.ready and member.task is None:
                        _hand_over(member, queue.take())
                if not queue.fetch() and all(member.task is None for member in members):
                    return
                for connection in wait([member.connection for member in members]):
                    at = next(i for i, m in enumerate(members) if m.connection is connection)
                    if not _listen(members[at], finished, advanced):
                        advanced(-members[at].advanced)
                        queue.lost(members[at].task, _ending(members[at].process))
                        members[at] = self._start()
        finally:
            for member in members:
                _stop(member)

    def _start(self) -> _Member:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_serve, args=(theirs, self._work, self._folder), daemon=True
        )
        with thread_environment(self._work.threads), _interrupts_held():
            process.start()
        theirs.close()  # so that its end is noticed here
        return _Member(process, ours)


def _hand_over(member: _Member, task: Task | None) -> None:
    if task is not None:
        member.task, member.advanced = task, 0
        with contextlib.suppress(OSError):  # it has just ended: the next message will tell
            member.connection.send(task)


def _listen(
    member: _Member, finished: Callable[[Done], None], advanced: Callable[[int], object]
) -> bool:
    """Take one message; False if the worker has ended."""
    try:
        kind, content = member.connection.recv()
    except (EOFError, OSError):
        return False
    if kind == "ready":
        member.ready = True
    elif kind == "rows":
        member.advanced += content
        advanced(content)
    elif kind == "done":
        finished(content)
        member.task, member.advanced = None, 0
    elif kind == "refused":
        raise TertiumError(content)
    else:
        raise RuntimeError(f"a worker failed:\n{content}")
    return True


def _ending(process: Any) -> str:
    process.join(_PATIENCE)
    code = process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _stop(member: _Member) -> None:
    """End a worker; one that is busy takes what it has half-written away."""
    if member.ready and member.task is None:
        with contextlib.suppress(OSError):
            member.connection.send(None)
    else:
        member.process.terminate()
    member.process.join(_PATIENCE)
    member.process.kill()
    member.process.join()
    member.connection.close()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; workers leave it to the one that began them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, work: Work, folder: Path) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    tqdm.set_lock(threading.RLock())  # its own would outlive a killed process
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(kind: str, content: object = None) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and this process soon too
            connection.send((kind, content))

    try:
        worker = Worker(work)
        send("ready")
        while (task := connection.recv()) is not None:
            done = worker.store(folder, task, advanced=lambda rows: send("rows", rows))
            send("done", done)
    except EOFError:
        return
    except TertiumError as error:
        send("refused", str(error))
    except Exception:  # whatever it is, the one who waits must hear of it
        send("broken", traceback.format_exc())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to take away


def _end_with_parent() -> None:
    """A killed parent must not leave workers that go on writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
