"""One worker as the server sees it: a process, a connection, and what it has been asked."""

import asyncio
import contextlib
import multiprocessing
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tertium.inference.bulk.work import thread_environment
from tertium.serve.frames import pack, read
from tertium.serve.spec import Spec

__all__ = ["Handle", "Launch", "Member", "Pending", "spawn"]

_PATIENCE = 5.0  # seconds for a worker to end by itself


class Handle(Protocol):
    """A worker that was started."""

    def join(self, timeout: float) -> None:
        """Wait for its end."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


Launch = Callable[[Spec, socket.socket], Handle]  # the connection is the worker's from then on


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


def spawn(spec: Spec, connection: socket.socket) -> Handle:
    """Start a process that holds nothing of this one."""
    from tertium.serve.worker import run_worker

    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run_worker, args=(connection, spec), daemon=True)
    with thread_environment(spec.threads), _signals_held():
        process.start()
    connection.close()  # so that its end is noticed here
    return process


@dataclass(eq=False)
class Member:
    """One life of a worker.

    Attributes:
        handle: its process.
        pending: what it was asked and has not answered.
        ready: whether it has said what it serves.
    """

    handle: Handle
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pending: dict[int, Pending] = field(default_factory=dict)
    ready: bool = False

    @classmethod
    async def start(cls, spec: Spec, launch: Launch) -> "Member":
        """Launch a worker and connect to it."""
        ours, theirs = socket.socketpair()
        handle = launch(spec, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(handle, reader, writer)

    def ask(self, pending: Pending) -> None:
        """Send a request."""
        self.pending[pending.id] = pending
        self._write(pending.head)

    def drop(self, number: int) -> None:
        """Tell that nobody waits any more."""
        if self.pending.pop(number, None) is not None:
            self._write({"kind": "drop", "id": number})

    async def listen(self, heard: Callable[["Member", dict[str, Any], bytes], None]) -> None:
        """Hand on what the worker says, until it ends."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head, body = await read(self.reader)
                heard(self, head, body)

    async def stop(self) -> None:
        """Close the connection, which ends the worker."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
        await asyncio.to_thread(self.handle.join, _PATIENCE)
        self.handle.kill()

    def _write(self, head: dict[str, Any]) -> None:
        if not self.writer.is_closing():
            self.writer.write(pack(head))


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """A signal to the whole group must not hit a worker before it has learnt to leave it alone."""
    if (
        not hasattr(signal, "pthread_sigmask")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
