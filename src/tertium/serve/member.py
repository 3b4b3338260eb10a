"""One worker as the server sees it: a process, a connection, and what it has been asked."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tertium.serve.birth import Handle
from tertium.serve.frames import pack, read
from tertium.serve.spec import Spec

__all__ = ["Launch", "Member", "Pending"]

_PATIENCE = 5.0  # seconds for a worker to end by itself
_SILENT = 2  # beats without a sign of life after which a worker is given nothing more

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


@dataclass(eq=False)
class Member:
    """One life of a worker.

    Attributes:
        handle: its process.
        pending: what it was asked and has not answered.
        ready: whether it has said what it serves.
        index: what it can search, if it can.
        heard: whether it has said anything since the last beat.
        missed: beats without a sign of life.
        busy: seconds that its present step had taken when it last said so.
    """

    handle: Handle
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pending: dict[int, Pending] = field(default_factory=dict)
    ready: bool = False
    index: dict[str, Any] | None = None
    heard: bool = False
    missed: int = 0
    busy: float = 0.0

    @classmethod
    async def start(cls, spec: Spec, launch: Launch) -> "Member":
        """Launch a worker and connect to it."""
        ours, theirs = socket.socketpair()
        try:
            handle = await _launched(partial(launch, spec, theirs))
        except BaseException:
            ours.close()  # which ends the worker, should it begin after all
            raise
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

    @property
    def able(self) -> bool:
        """Whether it has loaded its models and answers when it is called."""
        return self.ready and self.missed < _SILENT

    @property
    def process(self) -> int | None:
        """The number of its process, if it is one."""
        return getattr(self.handle, "pid", None)

    def ping(self) -> None:
        """Ask for a sign of life, which :meth:`beat` looks for."""
        self.heard = False
        self._write({"kind": "ping"})

    def beat(self) -> None:
        """Count how often it has been silent in a row."""
        self.missed = 0 if self.heard else self.missed + 1

    async def listen(self, heard: Callable[["Member", dict[str, Any], bytes], None]) -> None:
        """Hand on what the worker says, until it ends."""
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
        await asyncio.to_thread(self.handle.join, _PATIENCE)
        self.handle.kill()

    def _write(self, head: dict[str, Any]) -> None:
        if not self.writer.is_closing():
            self.writer.write(pack(head))


async def _launched(launch: Callable[[], Handle]) -> Handle:
    """A worker's handle, from a thread: the first launch imports everything.

    It is not one of the loop's own threads, for whose end a server that is told to stop would wait.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Handle] = loop.create_future()

    def settle(handle: Handle | None, error: BaseException | None) -> None:
        if found.done():
            return
        if handle is not None:
            found.set_result(handle)
        elif error is not None:
            found.set_exception(error)

    def run() -> None:
        handle, error = None, None
        try:
            handle = launch()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, handle, error)

    threading.Thread(target=run, daemon=True).start()
    return await found
