"""A worker process: takes what has arrived, runs what fits together, answers, and looks again."""

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
from tertium.serve.frames import pack, read_blocking
from tertium.serve.lanes import Lane, Refusal, Slice, Task
from tertium.serve.problems import where
from tertium.serve.served import Served, warm
from tertium.serve.spec import Spec

__all__ = ["Worker"]


class _Deserted(Exception):
    """Nobody waits for what is being made."""


class Worker:
    """Serves one connection.

    Args:
        connection: to the server.
        spec: what to serve.
        orphaned: called when the server is gone.
    """

    def __init__(
        self, connection: socket.socket, spec: Spec, *, orphaned: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._spec = spec
        self._orphaned = orphaned
        self._arrived: deque[dict[str, Any]] = deque()
        self._news = threading.Condition()
        self._tasks: dict[int, Task] = {}
        self._explaining: deque[Task] = deque()
        self._held: list[bytes] = []
        self._turn = 0
        self._open = True

    def run(self) -> None:
        """Load, say so, and serve until the server is gone."""
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._served = Served(self._spec)
            warm(self._served)
        except (TertiumError, OSError) as error:
            return self._refuse(str(error))
        except Exception as error:
            return self._refuse(f"{type(error).__name__}: {error}")
        self._lanes = list(dict.fromkeys(self._served.lanes.values()))
        self._send({"kind": "ready", **self._served.about()})
        self._flush()
        while self._open:
            self._admit(self._take(wait=self._idle))
            self._step()
            self._flush()
        return None

    def _listen(self) -> None:
        """Receive, so that whoever sends never waits for a model."""
        with contextlib.suppress(OSError), self._connection.makefile("rb") as stream:
            while (message := read_blocking(stream)) is not None:
                with self._news:
                    self._arrived.append(message[0])
                    self._news.notify()
        with self._news:
            self._open = False
            self._news.notify()
        self._orphaned()

    @property
    def _idle(self) -> bool:
        return not self._explaining and not any(lane.busy for lane in self._lanes)

    def _take(self, *, wait: bool) -> list[dict[str, Any]]:
        """All that has arrived; ``wait`` until there is something."""
        with self._news:
            while wait and self._open and not self._arrived:
                self._news.wait()
            taken = list(self._arrived)
            self._arrived.clear()
        return taken

    def _admit(self, heads: Sequence[dict[str, Any]]) -> None:
        new: dict[Lane, list[Task]] = {}
        for head in heads:
            if head["kind"] == "drop":
                if (gone := self._tasks.pop(head["id"], None)) is not None:
                    gone.dropped = True
                continue
            task = Task(head, head.pop("contents"))
            self._tasks[task.id] = task
            if head["kind"] == "explain":
                self._explaining.append(task)
            else:
                new.setdefault(self._served.lanes[head["kind"]], []).append(task)
        for lane, tasks in new.items():
            lane.admit([task for task in tasks if not task.dropped], self._fail)

    def _step(self) -> None:
        """Run one batch of the next model that has work."""
        for _ in range(len(self._lanes) + 1):
            self._turn = (self._turn + 1) % (len(self._lanes) + 1)
            if self._turn == len(self._lanes):
                if self._explain():
                    return
            elif parts := self._lanes[self._turn].gather():
                return self._batch(self._lanes[self._turn], parts)

    def _batch(self, lane: Lane, parts: Sequence[Slice]) -> None:
        self._send({"kind": "started", "ids": [part.task.id for part in parts]})
        self._flush()
        start = time.perf_counter()
        try:
            lane.run(parts)
        except Exception as error:  # one bad request must not spoil the others of its batch
            if len(parts) > 1:
                for part in parts:
                    self._batch(lane, [part])
            else:
                self._fail(parts[0].task, error)
            return
        spent = time.perf_counter() - start
        tokens = sum(item.tokens for part in parts for item in part.items)
        texts = sum(part.end - part.start for part in parts)
        self._send({"kind": "batch", "texts": texts, "tokens": tokens, "seconds": spent})
        for part in parts:
            if part.task.finished and not part.task.dropped:
                self._deliver(part.task, self._served.finish)

    def _explain(self) -> bool:
        while self._explaining:
            task = self._explaining.popleft()
            if not task.dropped:
                self._send({"kind": "started", "ids": [task.id]})
                self._flush()
                self._deliver(task, self._served.explain, partial(self._let_others, task))
                return True
        return False

    def _let_others(self, explained: Task) -> None:
        """A batch of each model in the midst of an explanation, which ends if nobody waits."""
        self._admit(self._take(wait=False))
        for lane in () if explained.alone else self._lanes:
            if parts := lane.gather():
                self._batch(lane, parts)
        self._flush()
        if explained.dropped or not self._open:
            raise _Deserted

    def _deliver(self, task: Task, make: Callable[..., Any], *how: Any) -> None:
        try:
            head, body = make(task, *how)
        except _Deserted:
            return None
        except Exception as error:
            return self._fail(task, error)
        self._tasks.pop(task.id, None)
        return self._send({"kind": "answer", "id": task.id, **head}, body)

    def _fail(self, task: Task, error: Exception) -> None:
        """Tell the client what it can mend; all else is told to the log, without any text."""
        task.dropped = True
        self._tasks.pop(task.id, None)
        told: dict[str, Any] = {"kind": "failed", "id": task.id}
        if isinstance(error, Refusal):
            told |= {"status": error.status, "code": error.code, "message": str(error)}
        elif isinstance(error, TertiumError):
            told |= {"status": 400, "code": "refused", "message": str(error)}
        else:
            sys.stderr.write(f"tertium.serve: {where(error)}\n")
            told |= {"status": 500, "code": "failed", "message": "The model failed on this text."}
        self._send(told)

    def _refuse(self, message: str) -> None:
        self._send({"kind": "refused", "message": message})
        self._flush()

    def _send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Hold a message until the next flush: many small ones travel as one."""
        self._held.append(pack(head, body))

    def _flush(self) -> None:
        held, self._held = b"".join(self._held), []
        with contextlib.suppress(OSError):  # the server is gone, and this process soon too
            self._connection.sendall(held)
