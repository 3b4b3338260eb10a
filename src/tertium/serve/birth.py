"""How a worker process begins: before anything heavy is loaded, here and there."""

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from tertium.errors import TertiumWarning
from tertium.serve.spec import Spec

__all__ = ["Handle", "run_worker", "spawn"]

_ONE_AT_A_TIME = threading.Lock()
_IMPORTS = "tertium.serve.worker"  # and with it torch and all that reads models
_SHAPES = "64"  # of products that torch's kernels keep ready; 1,024, their own, take more and more


class Handle(Protocol):
    """A worker that was started."""

    def join(self, timeout: float) -> None:
        """Wait for its end."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


class _Process(Handle, Protocol):
    def start(self) -> None: ...


def spawn(spec: Spec, connection: socket.socket) -> Handle:
    """Start a process that holds nothing of this one.

    Where the system can, it is forked from a process that has imported everything and done
    nothing else: imports take most of a worker's start, and they are paid once.
    """
    able = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if able else "spawn")
    if able:
        context.set_forkserver_preload([_IMPORTS])
    process: _Process = context.Process(target=run_worker, args=(connection, spec), daemon=True)
    with _ONE_AT_A_TIME, _signals_held(), _environment(spec):
        process.start()
    connection.close()  # so that its end is noticed here
    return process


def run_worker(connection: socket.socket, spec: Spec) -> None:
    """The life of a worker; it ends when the server closes the connection.

    Signals to stop are for the server, which lets its workers finish what it has accepted.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(_variables(spec))
    import torch
    from tqdm import tqdm

    from tertium.serve.worker import Worker

    warnings.simplefilter("ignore", TertiumWarning)  # answers say what was cut
    tqdm.set_lock(threading.RLock())  # its own would outlive a killed process
    torch.set_num_threads(spec.threads)
    Worker(connection, spec, orphaned=lambda: os._exit(0)).run()


def _variables(spec: Spec) -> dict[str, str]:
    """What libraries read when they are loaded."""
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    shapes = os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _SHAPES)
    return {
        **dict.fromkeys(threads, str(spec.threads)),
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY": shapes,
    }


@contextlib.contextmanager
def _environment(spec: Spec) -> Iterator[None]:
    """The process that imports for all workers finds their variables; this one keeps its own."""
    variables = _variables(spec)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """A signal to the whole group must not hit a worker before it has learnt to leave it alone."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
