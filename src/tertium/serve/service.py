"""Shared by all routes: the workers, the queue, and sending a request to a worker."""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request

from tertium.corpus.store import read_index_manifest
from tertium.errors import TertiumError
from tertium.serve.errors import APIError
from tertium.serve.metrics import Metrics
from tertium.serve.pool import Pool
from tertium.serve.protocol import Message
from tertium.serve.settings import Served, Settings

__all__ = ["Queue", "Service"]

_RECENT = 64  # answers used to estimate the rate
_LONGEST = 60  # maximum of Retry-After, in seconds


class Queue:
    """A limit on requests that are accepted and not yet answered.

    Args:
        requests: maximum number of requests.
        size: maximum total size of their bodies in bytes.
        metrics: counts both.
    """

    def __init__(self, *, requests: int, size: int, metrics: Metrics) -> None:
        self._requests = requests
        self._size = size
        self._metrics = metrics
        self._left: deque[float] = deque(maxlen=_RECENT)
        self._held_bytes = 0
        self.held = 0
        self.accepted = 0
        self.answered = 0

    @contextlib.contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Hold a place, or raise an error that says when to retry."""
        if self.held >= self._requests or self._held_bytes + size > self._size:
            self._metrics.refused.labels("queue_full").inc()
            seconds = self.pause()
            raise APIError(
                429,
                "queue_full",
                f"Too many requests are waiting; try again in {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )
        self.accepted += 1
        self._hold(1, size)
        try:
            yield
        finally:
            self._hold(-1, -size)
            self.answered += 1
            self._left.append(time.monotonic())

    def pause(self) -> int:
        """Seconds until half of the queue should be answered, at the recent rate."""
        if len(self._left) < 2:
            return 1
        pace = len(self._left) / max(time.monotonic() - self._left[0], 1e-3)
        return min(max(math.ceil(self.held / 2 / pace), 1), _LONGEST)

    def _hold(self, requests: int, size: int) -> None:
        self.held += requests
        self._held_bytes += size
        self._metrics.queued.set(self.held)
        self._metrics.queued_bytes.set(self._held_bytes)


class Service:
    """Settings, workers, queue and metrics of a server."""

    def __init__(self, settings: Settings, pool: Pool, metrics: Metrics) -> None:
        self.settings = settings
        self.pool = pool
        self.metrics = metrics
        self.queue = Queue(
            requests=settings.queue_requests, size=settings.queue_bytes, metrics=metrics
        )
        self.receiving = 0  # bodies that are being received
        self.stopping = False

    def model(self, name: str | None, *, takes_conditions: bool = False) -> Served:
        """The model of this name, or the first of its kind.

        Raises:
            APIError: there is no such model.
        """
        served = [
            each for each in self.settings.served if each.takes_conditions is takes_conditions
        ]
        if not served:
            raise APIError(
                503,
                "no_conditional_model",
                "No conditional model is served: it was disabled with --conditional-model none.",
            )
        for each in served:
            if name in (None, each.name):
                return each
        names = " or ".join(f"'{each.name}'" for each in served)
        message = f"This endpoint is served by {names}, not by '{name}'."
        raise APIError(404, "model_not_found", message, param="model")

    async def start(self) -> None:
        """Start the workers, and wait until one is ready."""
        folder = self.settings.index
        if folder is not None and not folder.is_dir():  # unlike a damaged index, this is fatal
            raise TertiumError(f"{folder} holds no index: build one with tertium index build.")
        await self.pool.start()

    def indexed(self) -> tuple[int, list[str]]:
        """Number of texts and columns of the index, including those added since the start."""
        index, folder = self.pool.index, self.settings.index
        assert index is not None and folder is not None
        try:
            manifest = read_index_manifest(folder)
            return manifest.count, list(manifest.columns)
        except (OSError, TertiumError):  # the index is being replaced
            return int(index["texts"]), []

    async def ask(self, request: Request, head: dict[str, Any], *, size: int) -> Message:
        """A worker's answer; raises if the queue is full, time is up or the client disconnects."""
        left = request.state.arrived + self.settings.deadline - time.monotonic()
        with self.queue.place(size):
            pending = self.pool.ask({**head, "client": request.state.client})
            gone = asyncio.ensure_future(_gone(request))
            try:
                await asyncio.wait(
                    (pending.answer, gone),
                    timeout=max(left, 0),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if pending.answer.done():
                    return pending.answer.result()
                raise self._unanswered(client_gone=gone.done())
            finally:
                if not pending.answer.done():
                    self.pool.drop(pending)
                    pending.answer.cancel()
                gone.cancel()

    def _unanswered(self, *, client_gone: bool) -> APIError:
        if client_gone:
            self.metrics.dropped.inc()
            return APIError(499, "client_gone", "The client closed the connection.")
        if not self.pool.ready:
            return APIError(503, "no_worker", "No worker is ready.", headers={"Retry-After": "10"})
        self.metrics.refused.labels("deadline").inc()
        return APIError(
            504,
            "deadline",
            f"There was no answer within {self.settings.deadline:g} s. Send fewer texts, or try "
            "again when the server is less busy.",
        )


async def _gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
