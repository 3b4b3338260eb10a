"""The worker processes as the server sees them: asked, watched, and replaced when they end."""

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
# What a worker needs: imported once, so that workers only load their models.
_PRELOADED = ("tertium.engines.loading", "tertium.serve.worker", __name__)
_SILENT = 2  # missed heartbeats after which a worker is given nothing more
_BEATS = 5  # heartbeats within the time after which silence is a fault
_IMPORTS = 300.0  # seconds that a worker may be silent at first: it cannot answer while it imports
_LONGEST_PAUSE = 10.0  # seconds between two attempts to start a worker that dies at once
_SOUND = 60.0  # seconds after which a worker's death is no longer a failed start
_DEADLY = 2  # workers that may die while they load a model before it is given up for a while
_GIVEN_UP = 30.0  # seconds; then somebody may ask for it again


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
        preload=_PRELOADED if forks else (),
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


@dataclass(eq=False)
class Pending:
    """A request that a worker has, and who waits for its answer."""

    head: dict[str, Any]
    answer: "asyncio.Future[tuple[dict[str, Any], bytes]]"
    started: bool = False

    @property
    def id(self) -> int:
        """The number by which it is known."""
        return int(self.head["id"])


@dataclass(eq=False)
class WorkerHandle:
    """One worker process: its connection, what it was asked, and its heartbeat.

    Attributes:
        process: the process, or what stands for it.
        pending: what it was asked and has not answered.
        ready: whether it has said what it serves.
        loaded: names of the models that it has.
        loading: the name of the one that it is loading.
        index: what it can search, if it can.
        heard: whether it has said anything since the last heartbeat.
        missed: heartbeats in a row that it has not answered.
        busy: seconds that its present step had taken when it last said so.
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
            ours.close()  # which ends the worker, should it begin after all
            raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer)

    def ask(self, pending: Pending) -> None:
        """Send a request."""
        self.pending[pending.id] = pending
        self._write(pending.head)

    def drop(self, number: int) -> None:
        """Say that nobody waits for it any more."""
        if self.pending.pop(number, None) is not None:
            self._write({"kind": "drop", "id": number})

    @property
    def models(self) -> set[str]:
        """Names of the models that it has, or has to load for what it was asked."""
        heads = (pending.head for pending in self.pending.values())
        return self.loaded | {str(head["model"]) for head in heads if "model" in head}

    def has(self, name: str) -> bool:
        """Whether it has a model, or has to load it anyway."""
        return name in self.loaded or name in self.models

    @property
    def able(self) -> bool:
        """Whether it has loaded the first model and answers when it is called."""
        return self.ready and self.missed < _SILENT

    @property
    def pid(self) -> int | None:
        """Of its process, if it is one."""
        return getattr(self.process, "pid", None)

    def ping(self) -> None:
        """Ask for a sign of life, which :meth:`beat` looks for."""
        self.heard = False
        self._write({"kind": "ping"})

    def beat(self) -> None:
        """Count how often it has been silent in a row."""
        self.missed = 0 if self.heard else self.missed + 1

    async def listen(self, heard: Callable[["WorkerHandle", dict[str, Any], bytes], None]) -> None:
        """Pass on what the worker says, until it ends."""
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
    """A worker's process, started in a thread: the first launch imports everything.

    The thread is not one of the loop's own, whose end a server that is stopping would await.
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

    What a dead worker had not begun goes to another as if nothing had happened. What it was
    working on is tried once more, each request alone; the one that kills a second worker is
    answered with 503. A worker that is silent, or does not come to the end of a batch, is killed.

    A request goes to a worker that has its model; to one that has room for it and less to do; or
    to any, which then lets another model go. A model that cannot be loaded, or whose loading ends
    two workers, is given up for a while.

    Args:
        spec: what a worker serves.
        count: how many workers.
        metrics: counts batches and restarts.
        launch: starts a worker.
        silence: seconds after which a worker that does not answer heartbeats is killed.
        batch: seconds after which one that is still busy with the same batch is killed.

    Attributes:
        known: what workers told of each model that one of them has loaded, by name.
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
        """What can be searched now."""
        return next((each.index for each in self._workers if each.able and each.index), None)

    def state(self, name: str) -> str:
        """Whether a model is ``loaded``, ``loading``, ``unloaded``, or ``failed`` for a while."""
        if self._is_given_up(name):
            return "failed"
        if any(name in each.loaded for each in self._workers):
            return "loaded"
        return "loading" if any(name == each.loading for each in self._workers) else "unloaded"

    async def start(self) -> None:
        """Start all workers, and wait for the first."""
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
        """Forget a request, wherever it is."""
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
        """Kill a worker that is silent for too long, or too long at one batch.

        Heartbeats are counted, not seconds: if this process itself is held up, no worker is blamed.
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
                reason = f"has been at one batch for {worker.busy:.0f} s"
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
                self._give_up(worker.loading, "workers end while they load it: is there memory?")
        if worker.ready:
            self._metrics.restarts.inc()
            _LOG.error("a worker died; another one is started")
        else:
            self._start_failed("A worker ended while it loaded the models: is there memory enough?")
        for pending in list(worker.pending.values()):
            if pending.answer.done():
                continue
            if pending.started and pending.head.get("alone"):
                message = "This request ended two workers and is not tried again."
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
        """Send requests that waited for any worker at all."""
        waiting, self._unassigned = self._unassigned, []
        for pending in waiting:
            self._assign(pending)

    def _learn_models(self, worker: WorkerHandle, about: dict[str, Any]) -> None:
        """Remember what a worker has loaded, and what could not be."""
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
        _LOG.error("%s cannot be loaded, and is not tried for %.0f s: %s", name, _GIVEN_UP, reason)
        self._given_up[name] = time.monotonic() + _GIVEN_UP
        self._deaths.pop(name, None)

    def _learn_index(self, worker: WorkerHandle, about: dict[str, Any]) -> None:
        """Remember what a worker can search; the log gets one line when that changes."""
        index, fault = about["index"], about["fault"]
        worker.index = None if index is None else {**index, "name": short_name(index["name"])}
        if fault == self._index_fault:
            return
        self._index_fault = fault
        if fault is None:
            _LOG.info("the index is searched again")
        else:
            _LOG.error("search is off until the index is whole again: %s", fault)

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
