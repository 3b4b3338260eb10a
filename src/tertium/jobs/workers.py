"""Starts, limits and monitors the worker processes of bulk jobs and of the server.

Nothing heavy is imported here: the process that starts workers does not need a model.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tertium.errors import TertiumError

if TYPE_CHECKING:
    from tertium.data.shards import Done
    from tertium.jobs.work import ShardTask, Work

__all__ = [
    "Process",
    "Processes",
    "TaskQueue",
    "end_process",
    "limit_threads",
    "prepare_worker",
    "start_process",
]

START_METHOD = "spawn"  # workers inherit no locks or threads
_PATIENCE = 5.0  # seconds for a worker to end by itself
_ATTEMPTS = 3  # workers that one task may kill
_PRIMITIVES = "64"  # shapes for which oneDNN caches kernels; its default, 1,024, eats memory
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_STARTING = threading.Lock()  # the environment is shared by the whole process


class Process(Protocol):
    """A worker process."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for it to end."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


def start_process(
    target: Callable[..., None],
    *args: Any,
    threads: int,
    method: str | None = None,
    preload: Sequence[str] = (),
) -> Any:
    """Start a daemon process, whose ``target`` must call :func:`prepare_worker` first.

    Args:
        target: its main function.
        args: arguments of ``target``.
        threads: limit for the numerical libraries.
        method: start method of ``multiprocessing`` (default: ``START_METHOD``).
        preload: modules that a fork server imports once for all workers.
    """
    context: Any = multiprocessing.get_context(method or START_METHOD)
    if preload:
        context.set_forkserver_preload(list(preload))
    process = context.Process(target=target, args=args, daemon=True)
    with _STARTING, _signals_held(), _environment(threads):
        process.start()
    return process


def prepare_worker(*, threads: int, terminate: Any = signal.SIG_IGN) -> None:
    """Set up signals, threads and locks of this worker process.

    Ctrl-C reaches every process of a terminal; workers leave it to their parent.

    Args:
        threads: limit for the numerical libraries.
        terminate: handler for SIGTERM.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, terminate)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # the default lock would outlive a killed process
    limit_threads(threads)


def limit_threads(threads: int) -> None:
    """Limit the threads of this process, in libraries that are loaded now or later."""
    os.environ.update(_variables(threads))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)


def end_process(process: Process) -> None:
    """Wait a little for a worker that was asked to end, then kill it."""
    process.join(_PATIENCE)
    process.kill()
    process.join(_PATIENCE)


def _variables(threads: int) -> dict[str, str]:
    """Environment variables that libraries read when they are loaded."""
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    primitives = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    return {
        **dict.fromkeys(limits, str(threads)),
        primitives: os.environ.get(primitives, _PRIMITIVES),
    }


@contextlib.contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Set the variables of a worker for processes that are started in the block."""
    variables = _variables(threads)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Block stop signals for a worker until :func:`prepare_worker` has run."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class TaskQueue:
    """Tasks in order, read one ahead; those of lost workers come first.

    Args:
        tasks: shards with their rows; read when a worker is free, so that memory stays bounded.
    """

    def __init__(self, tasks: "Iterator[ShardTask]") -> None:
        self._tasks = tasks
        self._waiting: deque[ShardTask] = deque()
        self._losses: Counter[int | None] = Counter()

    def fetch(self) -> bool:
        """Read one task ahead; False if there is none."""
        if not self._waiting and (task := next(self._tasks, None)) is not None:
            self._waiting.append(task)
        return bool(self._waiting)

    def take(self) -> "ShardTask | None":
        """The next task, or None."""
        return self._waiting.popleft() if self.fetch() else None

    def lost(self, task: "ShardTask | None", reason: str) -> None:
        """Note that a worker died during ``task``, or before it could take one.

        Raises:
            TertiumError: for the third time.
        """
        key = None if task is None else task[0].index
        self._losses[key] += 1
        if self._losses[key] >= _ATTEMPTS:
            when = "before it could start"
            if task is not None:
                first, last = task[1][0].line, task[1][-1].line
                when = f"at shard {task[0].index}, lines {first} to {last}"
            raise TertiumError(
                f"A worker died {_ATTEMPTS} times {when} ({reason}). If memory is short, use fewer "
                "--jobs. Finished shards are kept: rerun the command to resume."
            )
        if task is not None:
            self._waiting.appendleft(task)


@dataclass
class _Worker:
    """A process with a pipe of its own, so that no lock is shared that a killed one could hold."""

    process: Any
    connection: Connection
    ready: bool = False
    task: "ShardTask | None" = None
    advanced: int = 0  # rows of the task that the progress bar already shows


class Processes:
    """A fixed number of worker processes on this machine; one that dies is replaced.

    Args:
        work: what they do.
        folder: where they write.
        count: number of processes.
        start_method: start method of ``multiprocessing`` (default: ``START_METHOD``).
    """

    def __init__(
        self, work: "Work", folder: Path, *, count: int, start_method: str | None = None
    ) -> None:
        self._work = work
        self._folder = folder
        self._count = count
        self._method = start_method or START_METHOD

    def run(
        self,
        tasks: "Iterator[ShardTask]",
        *,
        finished: "Callable[[Done], None]",
        advanced: Callable[[int], object],
    ) -> None:
        """Run all tasks; ``finished`` is called with each shard, ``advanced`` with rows done."""
        queue = TaskQueue(tasks)
        workers = [self._start() for _ in range(self._count)]
        try:
            while True:
                for worker in workers:
                    if worker.ready and worker.task is None:
                        _hand_over(worker, queue.take())
                if not queue.fetch() and all(worker.task is None for worker in workers):
                    return
                for connection in wait([worker.connection for worker in workers]):
                    at = next(i for i, each in enumerate(workers) if each.connection is connection)
                    if not _listen(workers[at], finished, advanced):
                        advanced(-workers[at].advanced)
                        queue.lost(workers[at].task, _ending(workers[at].process))
                        workers[at] = self._start()
        finally:
            for worker in workers:
                _stop(worker)

    def _start(self) -> _Worker:
        ours, theirs = multiprocessing.get_context(self._method).Pipe()
        process = start_process(
            *(_serve, theirs, self._work, self._folder),
            threads=self._work.threads,
            method=self._method,
        )
        theirs.close()  # so that the worker's end closes the pipe
        return _Worker(process, ours)


def _hand_over(worker: _Worker, task: "ShardTask | None") -> None:
    if task is not None:
        worker.task, worker.advanced = task, 0
        with contextlib.suppress(OSError):  # it has just died, which the next read will notice
            worker.connection.send(task)


def _listen(
    worker: _Worker, finished: "Callable[[Done], None]", advanced: Callable[[int], object]
) -> bool:
    """Handle one message; False if the worker has died."""
    try:
        kind, content = worker.connection.recv()
    except (EOFError, OSError):
        return False
    if kind == "ready":
        worker.ready = True
    elif kind == "rows":
        worker.advanced += content
        advanced(content)
    elif kind == "done":
        finished(content)
        worker.task, worker.advanced = None, 0
    elif kind == "refused":
        raise TertiumError(content)
    else:
        raise RuntimeError(f"a worker failed:\n{content}")
    return True


def _ending(process: Any) -> str:
    process.join(_PATIENCE)
    code = process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _stop(worker: _Worker) -> None:
    """Stop a worker; a busy one removes its partial file."""
    if worker.ready and worker.task is None:
        with contextlib.suppress(OSError):
            worker.connection.send(None)
    else:
        worker.process.terminate()
    end_process(worker.process)
    worker.connection.close()


def _serve(connection: Connection, work: "Work", folder: Path) -> None:
    """The main function of a worker of a bulk job."""
    prepare_worker(threads=work.threads, terminate=lambda number, frame: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from tertium.jobs.work import ShardWorker

    def send(kind: str, content: object = None) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and so will this process soon
            connection.send((kind, content))

    try:
        worker = ShardWorker(work)
        send("ready")
        while (task := connection.recv()) is not None:
            done = worker.store(folder, task, advanced=lambda rows: send("rows", rows))
            send("done", done)
    except EOFError:
        return
    except TertiumError as error:
        send("refused", str(error))
    except Exception:  # the parent must hear of any error
        send("broken", traceback.format_exc())
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to remove


def _end_with_parent() -> None:
    """Exit when the parent is killed, so that no worker keeps writing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
