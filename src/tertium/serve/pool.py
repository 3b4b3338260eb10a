"""The server's view of its worker processes: it sends requests, monitors and replaces them."""

import asyncio
import contextlib
import itertools
import logging
import math
import multiprocessing
import os
import socket
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tertium.errors import TertiumError, TertiumWarning
from tertium.jobs.workers import Process, end_process, prepare_worker, start_process
from tertium.serve.errors import APIError
from tertium.serve.metrics import Metrics
from tertium.serve.protocol import Spec, pack, read
from tertium.serve.settings import short_name

__all__ = ["Launch", "Pending", "Pool", "WorkerHandle", "run_worker", "spawn"]

_LOG = logging.getLogger("tertium.serve")
# Imported once, so that workers only load their models.
_PRELOADED = ("tertium.engines.loading", "tertium.serve.worker", __name__)
_SILENT = 2  # missed heartbeats after which a worker gets no more requests
_BEATS = 5  # heartbeats per worker timeout
_IMPORTS = 300.0  # seconds of silence allowed at first: a worker cannot answer while it imports
_LONGEST_PAUSE = 10.0  # maximum seconds between attempts to start a worker that dies at once
_SOUND = 60.0  # seconds after which a worker's death no longer counts as a failed start
_DEADLY = 2  # workers that may die while loading a model before it is given up for a while
_GIVEN_UP = 30.0  # seconds before a model that was given up is tried again


Launch = Callable[[Spec, socket.socket], Process]  # takes over the connection


def spawn(spec: Spec, connection: socket.socket) -> Process:
    """Start a worker process that inherits nothing from this one.

    Where possible it is forked from a process that has only imported everything: imports are most
    of a worker's start-up time, and this way they happen once.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    process: Process = start_process(
        *(run_worker, connection, spec),
        threads=spec.threads,
        method="forkserver" if forks else "spawn",
        preload=_PRELOADED if forks else (),
    )
    connection.close()  # so that the worker's end closes the socket
    return process


def run_worker(connection: socket.socket, spec: Spec) -> None:
    """The main function of a worker; it ends when the server closes the connection.

    Stop signals are ignored: the server lets its workers finish accepted requests.
    """
    prepare_worker(threads=spec.threads)
    from tertium.serve.worker import Worker

    warnings.simplefilter("ignore", TertiumWarning)  # answers report truncation
    Worker(connection, spec, orphaned=lambda: os._exit(0)).run()


@dataclass(eq=False)
class Pending:
    """A request that was sent to a worker, and the future for its answer."""

    head: dict[str, Any]
    answer: "asyncio.Future[tuple[dict[str, Any], bytes]]"
    started: bool = False

    @property
    def id(self) -> int:
        """Its number."""
        return int(self.head["id"])


@dataclass(eq=False)
class WorkerHandle:
    """One worker process: its connection, its pending requests, and its heartbeat.

    Attributes:
        process: the process, or a substitute.
        pending: requests that it has not answered.
        ready: whether it has reported what it serves.
        loaded: names of the models that it has loaded.
        loading: the name of the model that it is loading.
        index: the index that it can search, if any.
        heard: whether it has sent anything since the last heartbeat.
        missed: consecutive heartbeats that it has not answered.
        busy: seconds that its current step had taken at its last heartbeat.
    """

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pending: dict[int, Pending] = field(default_factory=dict)
    ready: bool = False
    loaded: set[str] = field(default_factory=set)
    loading: str | None = None
    index: dict[str, Any] | None = None
    heard: bool = False
    missed: int = 0
    busy: float = 0.0

    @classmethod
    async def start(cls, spec: Spec, launch: Launch) -> "WorkerHandle":
        """Launch a worker and connect to it."""
        ours, theirs = socket.socketpair()
        try:
            process = await _launched(partial(launch, spec, theirs))
        except BaseException:
            ours.close()  # ends the worker, should it start after all
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    def ask(self, pending: Pending) -> None:
        """Send a request."""
        self.pending[pending.id] = pending
        self._write(pending.head)

    def drop(self, number: int) -> None:
        """Tell the worker that nobody is waiting for a request any more."""
        if self.pending.pop(number, None) is not None:
            self._write({"kind": "drop", "id": number})

    @property
    def models(self) -> set[str]:
        """Names of the models that it has loaded, or must load for pending requests."""
        heads = (pending.head for pending in self.pending.values())
        return self.loaded | {str(head["model"]) for head in heads if "model" in head}

    def has(self, name: str) -> bool:
        """Whether it has loaded a model, or must load it anyway."""
        return name in self.loaded or name in self.models

    @property
    def able(self) -> bool:
        """Whether it is ready and answers heartbeats."""
        return self.ready and self.missed < _SILENT

    @property
    def pid(self) -> int | None:
        """The id of its process, if it is one."""
        return getattr(self.process, "pid", None)

    def ping(self) -> None:
        """Ask for a heartbeat, which :meth:`beat` checks."""
        self.heard = False
        self._write({"kind": "ping"})

    def beat(self) -> None:
        """Count consecutive missed heartbeats."""
        self.missed = 0 if self.heard else self.missed + 1

    async def listen(self, heard: Callable[["WorkerHandle", dict[str, Any], bytes], None]) -> None:
        """Pass on the worker's messages until it ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head, body = await read(self.reader)
                self.heard = True
                heard(self, head, body)

    async def stop(self) -> None:
        """Close the connection, which ends the worker."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
        await asyncio.to_thread(end_process, self.process)

    def _write(self, head: dict[str, Any]) -> None:
        if not self.writer.is_closing():
            self.writer.write(pack(head))


async def _launched(launch: Callable[[], Process]) -> Process:
    """Start a worker's process in a thread, since the first launch imports everything.

    It is not a thread of the loop's executor, which a stopping server would wait for.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Process] = loop.create_future()

    def set_unless_cancelled(outcome: Process | Exception) -> None:
        if found.done():
            return
        if isinstance(outcome, Exception):
            found.set_exception(outcome)
        else:
            found.set_result(outcome)

    def run() -> None:
        outcome: Process | Exception
        try:
            outcome = launch()
        except Exception as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(set_unless_cancelled, outcome)

    threading.Thread(target=run, daemon=True).start()
    return await found


class Pool:
    """A fixed number of workers; one that ends is replaced.

    Requests that a dead worker had not started go to another. Those that it was running are retried
    once, each in a batch of its own; one that kills a second worker is answered with 503. A worker
    that misses heartbeats, or hangs in a batch, is killed.

    A request goes to a worker that has its model; else to one that has room for it and less to do;
    else to any, which then unloads another model. A model that cannot be loaded, or kills two
    workers while loading, is given up for a while.

    Args:
        spec: what a worker serves.
        count: number of workers.
        metrics: counts batches and restarts.
        launch: starts a worker.
        silence: seconds after which a worker that does not answer heartbeats is killed.
        batch: seconds after which a worker that is still busy with the same batch is killed.

    Attributes:
        known: descriptions of all models that any worker has loaded, by name.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        count: int,
        metrics: Metrics,
        launch: Launch = spawn,
        silence: float = 10.0,
        batch: float = 120.0,
    ) -> None:
        self._silence = silence
        self._batch = batch
        self._index_fault: str | None = None
        self._deaths: Counter[str] = Counter()  # of workers that were loading a model
        self._given_up: dict[str, float] = {}  # until when, by model
        self.known: dict[str, dict[str, Any]] = {}
        self._spec = spec
        self._settings = spec.settings
        self._count = count
        self._metrics = metrics
        self._launch = launch
        self._workers: list[WorkerHandle] = []
        self._unassigned: list[Pending] = []
        self._numbers = itertools.count(1)
        self._supervisors: list[asyncio.Task[None]] = []
        self._first: asyncio.Future[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether any worker can answer."""
        return any(worker.able for worker in self._workers)

    @property
    def index(self) -> dict[str, Any] | None:
        """The index that can be searched now, if any."""
        return next((each.index for each in self._workers if each.able and each.index), None)

    def state(self, name: str) -> str:
        """Whether a model is ``loaded``, ``loading``, ``unloaded``, or ``failed`` for a while."""
        if self._is_given_up(name):
            return "failed"
        if any(name in each.loaded for each in self._workers):
            return "loaded"
        return "loading" if any(name == each.loading for each in self._workers) else "unloaded"

    async def start(self) -> None:
        """Start all workers, and wait until the first is ready."""
        self._first = asyncio.get_running_loop().create_future()
        self._supervisors = [asyncio.create_task(self._supervise()) for _ in range(self._count)]
        await self._first

    async def stop(self) -> None:
        """End all workers."""
        for supervisor in self._supervisors:
            supervisor.cancel()
        await asyncio.gather(*self._supervisors, return_exceptions=True)
        await asyncio.gather(*(worker.stop() for worker in self._workers))

    def ask(self, head: dict[str, Any]) -> Pending:
        """Send a request to a worker; the answer comes to its future."""
        numbered = {**head, "id": next(self._numbers)}
        pending = Pending(numbered, asyncio.get_running_loop().create_future())
        self._assign(pending)
        return pending

    def drop(self, pending: Pending) -> None:
        """Cancel a request, wherever it is."""
        for worker in self._workers:
            worker.drop(pending.id)
        if pending in self._unassigned:
            self._unassigned.remove(pending)

    def _assign(self, pending: Pending) -> None:
        name = pending.head.get("model")
        if name is not None and self._is_given_up(name):
            pending.answer.set_exception(
                APIError(
                    503,
                    "model_unavailable",
                    f"The model '{name}' cannot be loaded at the moment.",
                    headers={"Retry-After": f"{_GIVEN_UP:.0f}"},
                )
            )
            return
        able = [worker for worker in self._workers if worker.able]
        if pending.head["kind"] == "search":
            able = [worker for worker in able if worker.index is not None] or able
        elif able and name is not None:
            able = [self._choose(name, able)]
        if able:
            min(able, key=lambda worker: len(worker.pending)).ask(pending)
        else:
            self._unassigned.append(pending)

    def _choose(self, name: str, able: list[WorkerHandle]) -> WorkerHandle:
        """The least busy of those that have a model or room for it; of all, if there are none."""
        costs: dict[WorkerHandle, tuple[int, bool]] = {}
        for worker in able:
            missing = not worker.has(name)
            if not missing or len(worker.models) < self._settings.max_models:
                costs[worker] = (len(worker.pending) + missing, missing)  # loading costs a request
        return min(costs or able, key=lambda worker: costs.get(worker, len(worker.pending)))

    def _is_given_up(self, name: str) -> bool:
        return self._given_up.get(name, 0.0) > time.monotonic()

    async def _supervise(self) -> None:
        """Keep one worker alive."""
        pause = 0.0
        while True:
            born = time.monotonic()
            try:
                worker = await WorkerHandle.start(self._spec, self._launch)
            except OSError as error:
                self._start_failed(f"A worker could not be started: {error.strerror}.")
            else:
                await self._follow(worker, born)
            sound = time.monotonic() - born > _SOUND
            pause = 0.0 if sound else min(2 * pause + 0.5, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _follow(self, worker: WorkerHandle, born: float) -> None:
        """Listen to a worker and watch it until it ends."""
        self._workers.append(worker)
        watching = asyncio.create_task(self._watch(worker))
        try:
            await worker.listen(partial(self._heard, born=born))
        finally:
            watching.cancel()
        self._forget(worker)
        await worker.stop()

    async def _watch(self, worker: WorkerHandle) -> None:
        """Kill a worker that is silent for too long, or hangs in a batch.

        Heartbeats are counted, not seconds, so that no worker is blamed if this process stalls.
        """
        beat = self._silence / _BEATS
        at_first = max(math.ceil(_IMPORTS / beat), _BEATS)
        spoken = False
        while True:
            worker.ping()
            await asyncio.sleep(beat)
            worker.beat()
            self._count_ready()
            spoken = spoken or worker.heard
            if worker.missed >= (_BEATS if spoken else at_first):
                reason = f"was silent for {worker.missed * beat:g} s"
            elif worker.busy > self._batch:
                reason = f"has been running one batch for {worker.busy:.0f} s"
            else:
                continue
            _LOG.error("a worker %s and is killed (process %s)", reason, worker.pid)
            worker.process.kill()
            return

    def _forget(self, worker: WorkerHandle) -> None:
        self._workers.remove(worker)
        self._count_ready()
        if worker.loading is not None:
            self._deaths[worker.loading] += 1
            if self._deaths[worker.loading] >= _DEADLY:
                self._give_up(worker.loading, "workers die while loading it; out of memory?")
        if worker.ready:
            self._metrics.restarts.inc()
            _LOG.error("a worker died; another one is started")
        else:
            self._start_failed("A worker died while loading the models. Is there enough memory?")
        for pending in list(worker.pending.values()):
            if pending.answer.done():
                continue
            if pending.started and pending.head.get("alone"):
                message = "This request killed two workers and is not retried."
                pending.answer.set_exception(APIError(503, "worker_died", message))
                continue
            if pending.started:
                pending.head["alone"] = True
                pending.started = False
            self._assign(pending)

    def _heard(
        self, worker: WorkerHandle, head: dict[str, Any], body: bytes, *, born: float = 0.0
    ) -> None:
        kind = head.pop("kind")
        if kind == "pong":
            worker.missed, worker.busy = 0, head["busy"]
            self._assign_waiting()
        elif kind == "started":
            for number, pending in worker.pending.items():
                pending.started = number in head["ids"]
        elif kind == "index":
            self._learn_index(worker, head)
        elif kind == "models":
            self._learn_models(worker, head)
        elif kind == "batch":
            self._metrics.batch(**head)
        elif kind == "ready":
            seconds = time.monotonic() - born
            _LOG.info("a worker is ready after %.1f s (process %s)", seconds, worker.pid)
            self._greet(worker, head)
        elif kind == "refused":
            self._start_failed(head["message"])
        elif (asked := worker.pending.pop(head.pop("id"), None)) is not None:
            if asked.answer.done():
                return
            if kind == "failed":
                asked.answer.set_exception(APIError(**head))
            else:
                asked.answer.set_result((head, body))

    def _greet(self, worker: WorkerHandle, about: dict[str, Any]) -> None:
        worker.ready = True
        self._learn_models(worker, about)
        self._learn_index(worker, about)
        self._count_ready()
        self._assign_waiting()
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    def _assign_waiting(self) -> None:
        """Send requests that were waiting for a worker."""
        waiting, self._unassigned = self._unassigned, []
        for pending in waiting:
            self._assign(pending)

    def _learn_models(self, worker: WorkerHandle, about: dict[str, Any]) -> None:
        """Update which models a worker has loaded, and which failed."""
        there = about["models"]
        for name in there.keys() - worker.loaded:
            _LOG.info("a worker has loaded %s (process %s)", name, worker.pid)
            self._metrics.loads.labels(name).inc()
            self._deaths.pop(name, None)
            self._given_up.pop(name, None)
        worker.loaded, worker.loading = set(there), about["loading"]
        self.known.update(there)
        for name, reason in about["failed"].items():
            self._give_up(name, reason)
        self._count_ready()

    def _give_up(self, name: str, reason: str) -> None:
        _LOG.error("%s cannot be loaded; next attempt in %.0f s: %s", name, _GIVEN_UP, reason)
        self._given_up[name] = time.monotonic() + _GIVEN_UP
        self._deaths.pop(name, None)

    def _learn_index(self, worker: WorkerHandle, about: dict[str, Any]) -> None:
        """Update which index a worker can search, and log when that changes."""
        index, fault = about["index"], about["fault"]
        worker.index = None if index is None else {**index, "name": short_name(index["name"])}
        if fault == self._index_fault:
            return
        self._index_fault = fault
        if fault is None:
            _LOG.info("the index can be searched again")
        else:
            _LOG.error("search is disabled until the index is repaired: %s", fault)

    def _start_failed(self, message: str) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(TertiumError(message))
        else:
            _LOG.error("a worker could not start: %s", message)

    def _count_ready(self) -> None:
        self._metrics.ready.set(sum(worker.able for worker in self._workers))
        for served in self._settings.served:
            having = sum(worker.able and served.name in worker.loaded for worker in self._workers)
            self._metrics.loaded.labels(served.name).set(having)
