"""Limits of HTTP: of connections before a request is known, of bodies, and of other origins."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tertium.serve.errors import APIError, error_response
from tertium.serve.metrics import Metrics
from tertium.serve.settings import Settings

__all__ = ["Connection", "Cors", "Room", "connections", "parse", "read_body"]

Model = TypeVar("Model", bound=BaseModel)

_LOG = logging.getLogger("tertium.serve")
_LINGER = 5.0  # seconds in which what a refused client still sends is thrown away
_DISCARDED = 1_048_576  # bytes of a body that are thrown away after its answer, before the end
_FRAMING = 8  # bytes around each byte of a body that comes in chunks of one
_MANY = 65_536  # connections, where there is no limit of open files
_FILES = 64  # open files that are left for everything but connections
_CLOSE = {"Connection": "close"}  # the rest of the body is not wanted
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
        metrics: counts refusals.
        room: how many connections there may be.
        options: those of the protocol.
    """

    def __init__(self, *, settings: Settings, metrics: Metrics, room: Room, **options: Any) -> None:
        super().__init__(**options)
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._room: Final = room
        self._refusal: APIError | None = None  # why the parser was stopped
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
            self._answer(APIError(503, "too_many_connections", "Too many connections are open."))

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
            self._refusal = APIError(431, "too_many_headers", message)
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
        self._answer(self._refusal or APIError(400, "invalid_http", msg))

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self._settings.max_header_bytes:
            self._refusal = self._too_large()
            raise ValueError(self._refusal.message)

    def _too_large(self) -> APIError:
        most = self._settings.max_header_bytes
        return APIError(431, "headers_too_large", f"Headers may have {most:,} bytes.")

    def _answer(self, error: APIError) -> None:
        """Refuse past the application, and read no more; an answer on its way is not disturbed."""
        self._stop_timer()
        self._refused = True
        self._metrics.refused.labels(error.code).inc()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started or not cycle.more_body:
                cycle.keep_alive = False
                return
            cycle.disconnected = True  # this is the request that is refused
            cycle.message_event.set()
        response = error_response(error)
        lines = [STATUS_LINE[error.status], b"connection: close\r\n"]
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
        """The headers did not arrive in time; a client that has sent nothing gets no answer."""
        seconds = self._settings.header_timeout
        if self.receiving:
            message = f"The headers did not arrive within {seconds:g} s."
            self._answer(APIError(408, "slow_headers", message))
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """The body, unless it is larger than ``most`` or takes longer than ``seconds`` to arrive."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise APIError(
            415, "not_json", "Send JSON, with the header 'Content-Type: application/json'."
        )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            return await _collect(request, most)
    except TimeoutError:
        raise APIError(
            408,
            "slow_body",
            f"The request did not arrive whole within {seconds:.0f} s.",
            headers=_CLOSE,
        ) from None


def parse(model: type[Model], content: bytes) -> Model:
    """What the body says, or the first thing that is wrong with it."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    code = "invalid_json" if first["type"] == "json_invalid" else "invalid_request"
    if first["type"] == "token_array":
        code = "token_array"
    where = f"{place}: " if place else ""
    raise APIError(400, code, f"{where}{first['msg']}.", param=place or None)


async def _collect(request: Request, most: int) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
    except ClientDisconnect:
        raise APIError(499, "client_gone", "The client went away.") from None
    return b"".join(parts)


def _too_large(most: int) -> APIError:
    message = f"A request may have {most:,} bytes. Send fewer texts at a time."
    return APIError(413, "body_too_large", message, headers=_CLOSE)


class Cors(CORSMiddleware):
    """The outermost layer, so that pages can read refusals, too.

    Args:
        app: what it lets requests to.
        origins: of these pages.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["Retry-After"],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser asks before it sends a request; a refusal has the shape of all others."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name == "vary" or name.startswith("access-control-")
        }
        message = (
            f"{bytes(answer.body).decode()}: whoever runs the server can add an origin with "
            "--cors-origin."
        )
        return error_response(APIError(400, "cors_refused", message, headers=kept))
