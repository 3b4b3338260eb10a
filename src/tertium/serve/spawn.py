"""What a worker process is told, and how it starts."""

import multiprocessing
import os
import socket
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tertium.errors import TertiumWarning
from tertium.jobs.workers import Process, prepare_worker, start_process

if TYPE_CHECKING:
    from tertium.serve.settings import Settings

__all__ = ["LOADER", "Launch", "Spec", "run_worker", "short_name", "spawn", "spec_of"]

LOADER = "tertium.engines.loading:load"
_IMPORTS = "tertium.serve.worker"  # and with it torch and everything that loads models


@dataclass(frozen=True)
class Spec:
    """The models of a worker, and its limits.

    Attributes:
        model: gives vectors and scores pairs.
        conditional: takes conditions, if there is one.
        index: folder to search, if there is one.
        engine: what runs the models.
        threads: of this worker.
        batch_tokens: what is run together.
        max_tokens: of a request.
        max_explained_words: of the texts together.
        max_explained_characters: the same in characters.
        index_retry: seconds between two looks at an index that is damaged.
        loader: ``module:function`` that gives a model by its name.
    """

    model: str
    conditional: str | None = None
    index: str | None = None
    engine: str = "torch"
    threads: int = 1
    batch_tokens: int = 4096
    max_tokens: int = 65_536
    max_explained_words: int = 128
    max_explained_characters: int = 2048
    index_retry: float = 2.0
    loader: str = LOADER


Launch = Callable[[Spec, socket.socket], Process]  # the connection is the worker's from then on


def spec_of(settings: "Settings", *, loader: str = LOADER) -> Spec:
    """What the settings say to a worker."""
    return Spec(
        model=settings.model,
        conditional=None if settings.conditional_model == "none" else settings.conditional_model,
        index=None if settings.index is None else str(settings.index),
        engine=settings.engine,
        threads=settings.threads or max((os.cpu_count() or 1) // settings.workers, 1),
        batch_tokens=settings.batch_tokens,
        max_tokens=settings.max_tokens,
        max_explained_words=settings.max_explained_words,
        max_explained_characters=settings.max_explained_characters,
        index_retry=settings.index_retry,
        loader=loader,
    )


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


def short_name(name: str) -> str:
    """A model's name without its folders.

    >>> short_name("/models/my-model/"), short_name("sts")
    ('my-model', 'sts')
    """
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or name
