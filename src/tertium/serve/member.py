"""One worker as the server sees it: a process, a connection, and what it has been asked."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tertium.serve.birth import Handle
from tertium.serve.frames import pack, read
from tertium.serve.spec import Spec

__all__ = ["Launch", "Member", "Pending"]

_PATIENCE = 5.0  # seconds for a worker to end by itself


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
