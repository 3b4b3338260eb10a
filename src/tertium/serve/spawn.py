"""How a worker process starts: before anything heavy is loaded, here and there."""

import multiprocessing
import os
import socket
import warnings
from collections.abc import Callable

from tertium.errors import TertiumWarning
from tertium.jobs.workers import Process, prepare_worker, start_process
from tertium.serve.protocol import Spec

__all__ = ["Launch", "run_worker", "spawn"]

_IMPORTS = "tertium.serve.worker"  # and with it torch and everything that loads models


Launch = Callable[[Spec, socket.socket], Process]  # the connection is the worker's from then on


def spawn(spec: Spec, connection: socket.socket) -> Process:
    """Start a worker process that inherits nothing from this one.

    Where the system can, it is forked from a process that has imported everything and done
    nothing else: imports take most of a worker's start, and they are paid once.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    process: Process = start_process(
        *(run_worker, connection, spec),
        threads=spec.threads,
        method="forkserver" if forks else "spawn",
        preload=[_IMPORTS] if forks else [],
    )
    connection.close()  # so that its end is noticed here
    return process


def run_worker(connection: socket.socket, spec: Spec) -> None:
    """The life of a worker; it ends when the server closes the connection.

    Signals to stop are for the server, which lets its workers finish what it has accepted.
    """
    prepare_worker(threads=spec.threads)
    from tertium.serve.worker import Worker

    warnings.simplefilter("ignore", TertiumWarning)  # answers say what was cut
    Worker(connection, spec, orphaned=lambda: os._exit(0)).run()
