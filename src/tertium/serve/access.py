"""The first middleware of every request: host name, API key, security headers, metrics."""

import hashlib
import hmac
import logging
import re
import time
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tertium.errors import TertiumError
from tertium.serve.errors import APIError, error_response, where
from tertium.serve.metrics import Metrics

__all__ = ["AccessMiddleware", "KeyFile"]

_LOG = logging.getLogger("tertium.serve")
_ACCESS_LOG = logging.getLogger("tertium.serve.access")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_NO_STORE = (b"cache-control", b"no-store")
_LOOK_EVERY = 1.0  # seconds between two checks of the file
_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_SHORTEST = 16


class KeyFile:
    """API keys, one per line, in plain text or as ``sha256:`` and their hash; ``#`` is a comment.

    The file is reloaded when it changes. If it can no longer be read, or has an invalid line, the
    previous keys stay valid; an empty file locks everybody out.

    Args:
        path: the file.
        look_every: seconds between two checks for changes.
    """

    def __init__(self, path: Path, *, look_every: float = _LOOK_EVERY) -> None:
        self._path = path
        self._look_every = look_every
        self._seen = _signature(path)
        self._hashes = _read(path)
        self._looked = time.monotonic()
        if not self._hashes:
            raise TertiumError(f"{path} contains no keys: write one per line.")

    def accepts(self, key: str) -> bool:
        """Whether the file contains the key; all lines are compared, in constant time."""
        self._look()
        presented = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        found = False
        for known in self._hashes:
            found |= hmac.compare_digest(known, presented)
        return found

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < self._look_every:
            return
        self._looked = now
        try:
            signature = _signature(self._path)
            if signature == self._seen:
                return
            self._hashes = _read(self._path)
        except TertiumError as error:
            _LOG.error("keeping the previous keys: %s", error)
            return
        self._seen = signature
        _LOG.info("%d keys read from %s", len(self._hashes), self._path)


def _signature(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise TertiumError(f"The key file {path} cannot be read: {error.strerror}.") from None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TertiumError(f"The key file {path} cannot be read: {error}.") from None
    hashes = []
    for number, line in enumerate(lines, 1):
        key = line.partition("#")[0].strip()
        if not key:
            continue
        hashed = _HASHED.fullmatch(key)
        if hashed is None and (len(key) < _SHORTEST or len(key.split()) > 1):
            raise TertiumError(
                f"{path}, line {number} is not a key: it needs at least {_SHORTEST} characters "
                "and no spaces."
            )
        digest = hashlib.sha256(key.encode()).digest()
        hashes.append(bytes.fromhex(hashed[1]) if hashed else digest)
    return tuple(hashes)


class AccessMiddleware:
    """Checks the host name and the key of every request, except browsers' preflight requests.

    Args:
        app: the next application.
        keys: keys for ``/v1`` and ``/metrics``; None for no authentication.
        hosts: accepted host names; empty for any.
        metrics: counts every request.
        routes: paths that have their own metrics; all others count as "other", so that clients
            cannot create labels.
        access_log: log a line for each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyFile | None,
        hosts: tuple[str, ...],
        metrics: Metrics,
        routes: frozenset[str],
        access_log: bool,
    ) -> None:
        self._app = app
        self._keys = keys
        self._hosts = frozenset(host.lower() for host in hosts)
        self._metrics = metrics
        self._routes = routes
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start = time.monotonic()
        scope.setdefault("state", {}).update(arrived=start, client=_address(scope))
        status = 0  # no answer yet
        path = scope["path"]

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
                if path.startswith("/v1/"):
                    message["headers"].append(_NO_STORE)
            await send(message)

        try:
            refusal = self._refusal(scope, path)
            app = self._app if refusal is None else error_response(refusal)
            await app(scope, receive, sending)
        except Exception as error:  # its message may quote a text, which must not be logged
            _LOG.error("%s", where(error))
            if not status:
                failed = APIError(500, "failed", "The server failed to answer.")
                await error_response(failed)(scope, receive, sending)
        finally:
            spent = time.monotonic() - start
            route = path if path in self._routes else "other"
            self._metrics.request(route=route, status=status, seconds=spent)
            if self._access_log:
                _ACCESS_LOG.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * spent)
        return None

    def _refusal(self, scope: Scope, path: str) -> APIError | None:
        names = [name for name, _ in scope["headers"]]
        for name in (b"host", b"authorization"):
            if names.count(name) > 1:
                message = f"The header {name.decode().title()} may be sent only once."
                return APIError(400, "duplicate_header", message)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._hosts and _host(headers) not in self._hosts:
            return APIError(
                421,
                "wrong_host",
                "The server does not accept this host name. Its operator can add it with "
                "--allowed-host.",
            )
        if self._keys is None or not path.startswith(("/v1/", "/metrics")):
            return None
        scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and self._keys.accepts(key.strip()):
            scope["state"]["client"] = hashlib.sha256(key.strip().encode("latin-1")).hexdigest()
            return None
        self._metrics.refused.labels("unauthorised").inc()
        return APIError(
            401,
            "unauthorised",
            "This server requires an API key: send the header 'Authorization: Bearer KEY'.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _address(scope: Scope) -> str:
    """The client's address, which identifies it if there are no keys."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _host(headers: dict[bytes, Any]) -> str:
    """The host name in the header, without its port.

    >>> _host({b"host": b"localhost:8080"}), _host({b"host": b"[::1]:80"})
    ('localhost', '::1')
    """
    name = str(headers.get(b"host", b"").decode("latin-1")).lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
