"""A connection: how much may come before a request is known, how fast, and how it is refused."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tertium.serve.metrics import Metrics
from tertium.serve.problems import Problem, problem_response
from tertium.serve.settings import Settings

__all__ = ["Connection", "Room", "connections"]

_LOG = logging.getLogger("tertium.serve")
_LINGER = 5.0  # seconds in which what a refused client still sends is thrown away
_DISCARDED = 1_048_576  # bytes of a body that are thrown away after its answer, before the end
_FRAMING = 8  # bytes around each byte of a body that comes in chunks of one
_MANY = 65_536  # connections, where there is no limit of open files
_FILES = 64  # open files that are left for everything but connections
_SAY_EVERY = 10.0  # seconds between two lines of the log that say the same


def connections(settings: Settings, metrics: Metrics) -> Callable[..., "Connection"]:
    """What makes the connections of a server."""
    room = Room(settings.max_connections or _room())
    return partial(Connection, settings=settings, metrics=metrics, room=room)


def _room() -> int:
    """Connections for which the system's limit of open files leaves room."""
    try:
        import resource
    except ImportError:  # no such thing on Windows
        return _MANY
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MANY if limit == resource.RLIM_INFINITY else max(limit - _FILES, 1)


class Room:
    """How many connections may be open; says in the log, now and then, that there are no more.

    Args:
        most: so many.
        clock: seconds.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._refused = 0
        self._said = float("-inf")

    def takes(self, count: int) -> bool:
        """Whether that many may be open."""
        if count <= self._most:
            return True
        self._refused += 1
        if self._clock() - self._said >= _SAY_EVERY:
            _LOG.error(
                "out of connections: %d are open, and %d more were refused. They are limited by "
                "--max-connections, or by the limit of open files (ulimit -n, LimitNOFILE).",
                self._most,
                self._refused,
            )
            self._refused, self._said = 0, self._clock()
        return False


class _Lingering:
    """A transport that is closed only after what the client is sending has been thrown away.

    Closing at once would make the system answer what arrives later with a reset, upon which the
    client may lose the response that says why.
    """

    def __init__(self, transport: asyncio.Transport, owner: "Connection") -> None:
        self._transport = transport
        self._owner = owner
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        self._closing = True
        if not self._owner.receiving:
            self._transport.close()
            return
        with contextlib.suppress(OSError, RuntimeError):
            self._transport.write_eof()
            self._transport.resume_reading()
        self._owner.loop.call_later(_LINGER, self._transport.close)


class Connection(HttpToolsProtocol):
    """HTTP/1.1 with limits for all that comes before a request is known.

    Args:
        settings: with the limits.
        metrics: told of refusals.
        room: how many connections there may be.
        options: those of the protocol.
    """

    def __init__(self, *, settings: Settings, metrics: Metrics, room: Room, **options: Any) -> None:
        super().__init__(**options)
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._room: Final = room
        self._refusal: Problem | None = None  # why the parser was stopped
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._framing = 0  # bytes of this message that are no body
        self._head = 0  # bytes of its headers
        self._discarded = 0
        self.receiving = False  # whether a message has begun and not come to its end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless there are too many who do."""
        super().connection_made(_Lingering(transport, self))  # type: ignore[arg-type]
        if self._room.takes(len(self.connections)):
            self._start_timer()
        else:
            self._answer(Problem(503, "too_many_connections", "Too many connections are open."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._stop_timer()
        self.receiving = False
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, as far as the limits go."""
        if self._refused or self.transport.is_closing():
            return
        self._framing += len(data)
        super().data_received(data)
        if self._refused or self.transport.is_closing():
            return
        if self._framing > self._settings.max_header_bytes:
            self._answer(self._too_large())
        elif self.cycle is None or self.cycle.response_complete:
            self._after_answer(len(data))

    def _after_answer(self, size: int) -> None:
        """What comes when nobody reads: the rest of a refused body, or blank lines."""
        if self._timer is None and not self.receiving:
            self._start_timer()
        self._discarded += size
        if self.receiving and self._discarded > _DISCARDED:
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.receiving = True
        self._framing = self._head = self._discarded = 0
        self._start_timer()

    def on_url(self, url: bytes) -> None:
        """Some of the first line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, or one that follows a body."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)
        most = self._settings.max_headers
        if len(self.headers) > most:
            message = f"A request may have {most} headers."
            self._refusal = Problem(431, "too_many_headers", message)
            raise ValueError(message)  # the parser hands on that something was raised

    def on_headers_complete(self) -> None:
        """The request is known."""
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of the body, and what frames it."""
        self._framing = max(self._framing - (1 + _FRAMING) * len(body), 0)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of the request is here."""
        self.receiving = False
        self._framing = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, or too large a one, in the shape of all errors."""
        self._answer(self._refusal or Problem(400, "invalid_http", msg))

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self._settings.max_header_bytes:
            self._refusal = self._too_large()
            raise ValueError(self._refusal.message)

    def _too_large(self) -> Problem:
        most = self._settings.max_header_bytes
        return Problem(431, "headers_too_large", f"Headers may have {most:,} bytes.")

    def _answer(self, problem: Problem) -> None:
        """Refuse past the application, and read no more; an answer on its way is not disturbed."""
        self._stop_timer()
        self._refused = True
        self._metrics.refused.labels(problem.code).inc()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started or not cycle.more_body:
                cycle.keep_alive = False
                return
            cycle.disconnected = True  # this is the request that is refused
            cycle.message_event.set()
        response = problem_response(problem)
        lines = [STATUS_LINE[problem.status], b"connection: close\r\n"]
        lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._settings.header_timeout, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        """Headers did not come in time; who has sent nothing is told nothing."""
        seconds = self._settings.header_timeout
        if self.receiving:
            message = f"The headers did not arrive within {seconds:g} s."
            self._answer(Problem(408, "slow_headers", message))
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()
