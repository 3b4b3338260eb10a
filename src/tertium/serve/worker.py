"""A worker process: receives requests, runs them in batches, and sends the answers."""

import contextlib
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tertium.errors import TertiumError
from tertium.serve.batching import BatchQueue, QueuedRequest, Slice, TimeShares
from tertium.serve.errors import APIError, where
from tertium.serve.explaining import Explanations
from tertium.serve.host import ModelHost
from tertium.serve.loaded import HostedModel
from tertium.serve.protocol import Message, Spec, pack, read_blocking

__all__ = ["Worker"]


class Worker:
    """Serves one connection.

    Args:
        connection: connection to the server.
        spec: what to serve.
        orphaned: called when the server has gone.
    """

    def __init__(
        self, connection: socket.socket, spec: Spec, *, orphaned: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._spec = spec
        self._orphaned = orphaned
        self._arrived: deque[dict[str, Any]] = deque()
        self._news = threading.Condition()
        self._sending = threading.Lock()
        self._tasks: dict[int, QueuedRequest] = {}
        self._held: list[bytes] = []
        self._busy_since: float | None = None
        self._open = True

    def run(self) -> None:
        """Load the models, report that, and serve until the connection closes."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._host = ModelHost(self._spec, changed=self._tell_of_models, ended=self._wake)
        except (TertiumError, OSError) as error:
            return self._refuse(str(error))
        except Exception as error:
            return self._refuse(f"{type(error).__name__}: {error}")
        self._shares: TimeShares[tuple[str, str]] = TimeShares()
        self._told_fault = self._host.index_fault
        self._send({"kind": "ready", **self._host.about()})
        self._flush()
        while self._open:
            self._admit(self._take())
            self._busy_since = time.perf_counter()
            self._host.models.advance(self._fail)
            self._step()
            self._host.models.advance(self._fail)  # a model that has become idle may be unloaded
            self._flush()
            self._busy_since = None
        return None

    def _listen(self) -> None:
        """Receive messages in a thread, so that the server never blocks on a running model."""
        with contextlib.suppress(OSError), self._connection.makefile("rb") as stream:
            while (message := read_blocking(stream)) is not None:
                if message[0]["kind"] == "ping":
                    self._pong()
                    continue
                with self._news:
                    self._arrived.append(message[0])
                    self._news.notify()
        with self._news:
            self._open = False
            self._news.notify()
        self._orphaned()

    def _pong(self) -> None:
        """Answer a heartbeat with the duration of the current step."""
        since = self._busy_since
        busy = 0.0 if since is None else time.perf_counter() - since
        with contextlib.suppress(OSError), self._sending:
            self._connection.sendall(pack({"kind": "pong", "busy": busy}))

    def _wake(self) -> None:
        with self._news:
            self._news.notify()

    @property
    def _busy(self) -> "dict[tuple[str, str], HostedModel]":
        """Models with work to do, by model name and queue."""
        hosted = self._host.hosted
        return {
            **{(model.name, queue): model for model in hosted for queue in model.queues},
            **{(model.name, "explanations"): model for model in hosted if model.explanations.busy},
        }

    def _take(self) -> list[dict[str, Any]]:
        """All messages that have arrived; waits for one if there is nothing else to do."""
        with self._news:
            if not self._busy:
                self._news.wait_for(
                    lambda: self._arrived or not self._open or self._host.models.has_news,
                    timeout=self._spec.settings.index_retry,
                )
            taken = list(self._arrived)
            self._arrived.clear()
        return taken

    def _admit(self, heads: Sequence[dict[str, Any]]) -> None:
        for head in heads:
            if head["kind"] == "drop":
                if (gone := self._tasks.pop(head["id"], None)) is not None:
                    gone.dropped = True
                continue
            task = QueuedRequest(head, head.pop("contents"))
            self._tasks[task.id] = task
            try:
                self._host.admit(task)
            except APIError as refusal:
                self._fail(task, refusal)

    def _tell_of_models(self) -> None:
        """Report which models are loaded and loading."""
        self._send({"kind": "models", **self._host.about_models()})
        self._flush()

    def _step(self) -> None:
        """Run a batch, or part of an explanation, from the queue that has had the least time."""
        self._host.look_at_index(time.perf_counter())
        self._tell_of_index()
        busy = self._busy
        chosen = self._shares.next(list(busy))
        if chosen is None:
            return
        start, model = time.perf_counter(), busy[chosen]
        if chosen[1] == "explanations":
            self._explain(model.explanations)
        else:
            queue = model.queues[chosen[1]]
            if parts := queue.gather(self._fail):
                self._batch(model, queue, parts)
        self._shares.charge(chosen, time.perf_counter() - start)

    def _tell_of_index(self) -> None:
        """Report if the index can no longer be searched, or can be again."""
        if self._host.index_fault != self._told_fault:
            self._told_fault = self._host.index_fault
            self._send({"kind": "index", **self._host.about_index()})

    def _batch(self, model: HostedModel, queue: BatchQueue, parts: Sequence[Slice]) -> None:
        self._send({"kind": "started", "ids": [part.task.id for part in parts]})
        self._flush()
        start = time.perf_counter()
        try:
            queue.run(parts)
        except Exception as error:  # one bad request must not fail the others in its batch
            if len(parts) > 1:
                for part in parts:
                    self._batch(model, queue, [part])
            else:
                self._fail(parts[0].task, error)
            return
        spent = time.perf_counter() - start
        tokens = sum(item.tokens for part in parts for item in part.items)
        texts = sum(part.end - part.start for part in parts)
        queue.ran(tokens, seconds=spent)
        sizes = {"texts": texts, "tokens": tokens, "seconds": spent}
        self._send({"kind": "batch", "model": model.name, **sizes})
        for part in parts:
            if part.task.finished and not part.task.dropped:
                self._deliver(part.task, partial(self._host.finish, part.task))

    def _explain(self, explanations: Explanations) -> None:
        """Run one part of the next explanation."""
        task = explanations.current()
        if task is None:
            return
        self._send({"kind": "started", "ids": [task.id]})
        self._flush()
        if (finished := explanations.resume()) is not None:
            self._deliver(task, finished.answer)

    def _deliver(self, task: QueuedRequest, make: Callable[[], Message]) -> None:
        try:
            head, body = make()
        except Exception as error:
            return self._fail(task, error)
        self._tasks.pop(task.id, None)
        return self._send({"kind": "answer", "id": task.id, **head}, body)

    def _fail(self, task: QueuedRequest, error: Exception) -> None:
        """Answer with an :class:`APIError`; other errors are logged, without any text."""
        self._tell_of_index()
        task.dropped = True
        self._tasks.pop(task.id, None)
        message: dict[str, Any] = {"kind": "failed", "id": task.id}
        if isinstance(error, APIError):
            told = {"status": error.status, "code": error.code, "param": error.param}
            message |= {**told, "message": str(error)}
        else:
            with contextlib.suppress(OSError):  # the log may be on a full disk
                sys.stderr.write(f"tertium.serve: {where(error)}\n")
            status, code = (
                (503, "unavailable") if isinstance(error, TertiumError) else (500, "failed")
            )
            message |= {"status": status, "code": code, "message": "The model failed on this text."}
        self._send(message)

    def _refuse(self, message: str) -> None:
        self._send({"kind": "refused", "message": message})
        self._flush()

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Hold a message until the next flush, which sends all of them at once."""
        self._held.append(pack(head, body))

    def _flush(self) -> None:
        held, self._held = b"".join(self._held), []
        with contextlib.suppress(OSError), self._sending:  # the server has gone; so will this soon
            self._connection.sendall(held)
