"""Limits on connections, headers and bodies, and cross-origin requests."""

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
_LINGER = 5.0  # seconds for which data from a refused client is discarded before closing
_DISCARDED = 1_048_576  # bytes of a body that are discarded after its answer before closing
_FRAMING = 8  # overhead per byte of a body that arrives in chunks of one byte
_MANY = 65_536  # maximum connections if open files are unlimited
_FILES = 64  # open files reserved for everything but connections
_CLOSE = {"Connection": "close"}  # the rest of the body is not read
_SAY_EVERY = 10.0  # seconds between two equal log lines


def connections(settings: Settings, metrics: Metrics) -> Callable[..., "Connection"]:
    """The protocol factory of a server."""
    room = Room(settings.max_connections or _room())
    return partial(Connection, settings=settings, metrics=metrics, room=room)


def _room() -> int:
    """Connections that the limit on open files allows."""
    try:
        import resource
    except ImportError:  # on Windows
        return _MANY
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MANY if limit == resource.RLIM_INFINITY else max(limit - _FILES, 1)


class Room:
    """A limit on open connections, which logs now and then that it was exceeded.

    Args:
        most: maximum number of connections.
        clock: returns seconds.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._refused = 0
        self._said = float("-inf")

    def takes(self, count: int) -> bool:
        """Whether ``count`` connections may be open."""
        if count <= self._most:
            return True
        self._refused += 1
        if self._clock() - self._said >= _SAY_EVERY:
            _LOG.error(
                "out of connections: %d are open, and %d more were refused. Raise "
                "--max-connections, or the limit on open files (ulimit -n, LimitNOFILE).",
                self._most,
                self._refused,
            )
            self._refused, self._said = 0, self._clock()
        return False


class _Lingering:
    """A transport that discards what the client is still sending before it closes.

    Closing at once would make the system reset the connection when more data arrives, and the
    client might lose the response that says why.
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
    """HTTP/1.1 with limits on everything before the application sees a request.

    Args:
        settings: the limits.
        metrics: counts refusals.
        room: the limit on connections.
        options: arguments of the protocol.
    """

    def __init__(self, *, settings: Settings, metrics: Metrics, room: Room, **options: Any) -> None:
        super().__init__(**options)
        self._settings: Final = settings
        self._metrics: Final = metrics
        self._room: Final = room
        self._refusal: APIError | None = None  # why the parser was stopped
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._framing = 0  # bytes of this message outside its body
        self._head = 0  # bytes of its headers
        self._discarded = 0
        self.receiving = False  # whether a message has begun and not ended

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection unless there are too many."""
        super().connection_made(_Lingering(transport, self))  # type: ignore[arg-type]
        if self._room.takes(len(self.connections)):
            self._start_timer()
        else:
            self._answer(APIError(503, "too_many_connections", "Too many connections are open."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        self.receiving = False
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, within the limits."""
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
        """Handle data after the answer: the rest of a refused body, or blank lines."""
        if self._timer is None and not self.receiving:
            self._start_timer()
        self._discarded += size
        if self.receiving and self._discarded > _DISCARDED:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Start the timer for the headers of a request."""
        super().on_message_begin()
        self.receiving = True
        self._framing = self._head = self._discarded = 0
        self._start_timer()

    def on_url(self, url: bytes) -> None:
        """Count part of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header, or a trailer."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)
        most = self._settings.max_headers
        if len(self.headers) > most:
            message = f"A request may have at most {most} headers."
            self._refusal = APIError(431, "too_many_headers", message)
            raise ValueError(message)  # makes the parser fail

    def on_headers_complete(self) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Deduct part of the body, and its chunk framing, from what counts as overhead."""
        self._framing = max(self._framing - (1 + _FRAMING) * len(body), 0)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self.receiving = False
        self._framing = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, or one with too large headers, in the common shape."""
        self._answer(self._refusal or APIError(400, "invalid_http", msg))

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self._settings.max_header_bytes:
            self._refusal = self._too_large()
            raise ValueError(self._refusal.message)

    def _too_large(self) -> APIError:
        most = self._settings.max_header_bytes
        return APIError(431, "headers_too_large", f"Headers may have at most {most:,} bytes.")

    def _answer(self, error: APIError) -> None:
        """Refuse without the application and read no more, unless an answer is being sent."""
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
            f"The request did not arrive completely within {seconds:.0f} s.",
            headers=_CLOSE,
        ) from None


def parse(model: type[Model], content: bytes) -> Model:
    """The parsed body; raises with its first error."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    code = "invalid_json" if first["type"] == "json_invalid" else "invalid_request"
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
        raise APIError(499, "client_gone", "The client closed the connection.") from None
    return b"".join(parts)


def _too_large(most: int) -> APIError:
    message = f"A request may have at most {most:,} bytes. Send fewer texts at a time."
    return APIError(413, "body_too_large", message, headers=_CLOSE)


class Cors(CORSMiddleware):
    """CORS as the outermost middleware, so that pages can read refusals too."""

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["Retry-After"],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight request; refusals have the common shape of errors."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name == "vary" or name.startswith("access-control-")
        }
        message = (
            f"{bytes(answer.body).decode()}: the operator of the server can allow an origin with "
            "--cors-origin."
        )
        return error_response(APIError(400, "cors_refused", message, headers=kept))
