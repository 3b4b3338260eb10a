"""What every request passes: who calls, by which name, with which key; and what it is told."""

import hashlib
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tertium.serve.keys import KeyFile
from tertium.serve.metrics import Metrics
from tertium.serve.problems import Problem, problem_response, where

__all__ = ["ROUTES", "Gate"]

_ERRORS = logging.getLogger("tertium.serve")
_LOG = logging.getLogger("tertium.serve.access")
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

# Paths as metrics call them; all others are "other", so that nobody can make up names.
ROUTES = frozenset(
    {
        "/",
        "/docs",
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/models",
        "/v1/embeddings",
        "/v1/similarity",
        "/v1/conditional",
        "/v1/explain",
        "/v1/search",
    }
)


class Gate:
    """What every request passes, except what browsers ask before they send one.

    Args:
        app: what it lets requests to.
        keys: who may call ``/v1`` and ``/metrics``; None lets everybody.
        hosts: names that the server answers to; none for any.
        metrics: told of every request.
        access_log: write a line for each.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyFile | None,
        hosts: tuple[str, ...],
        metrics: Metrics,
        access_log: bool,
    ) -> None:
        self._app = app
        self._keys = keys
        self._hosts = frozenset(host.lower() for host in hosts)
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start = time.monotonic()
        scope.setdefault("state", {}).update(arrived=start, client=_address(scope))
        status = 0  # nothing is answered yet
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
            problem = self._problem(scope, path)
            app = self._app if problem is None else problem_response(problem)
            await app(scope, receive, sending)
        except Exception as error:  # the log gets no text
            _ERRORS.error("%s", where(error))
            if not status:
                failed = Problem(500, "failed", "The server failed to answer.")
                await problem_response(failed)(scope, receive, sending)
        finally:
            spent = time.monotonic() - start
            route = path if path in ROUTES else "other"
            self._metrics.request(route=route, status=status, seconds=spent)
            if self._access_log:
                _LOG.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * spent)
        return None

    def _problem(self, scope: Scope, path: str) -> Problem | None:
        names = [name for name, _ in scope["headers"]]
        for name in (b"host", b"authorization"):
            if names.count(name) > 1:
                message = f"The header {name.decode().title()} may be sent only once."
                return Problem(400, "duplicate_header", message)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._hosts and _host(headers) not in self._hosts:
            return Problem(
                421,
                "wrong_host",
                "The server does not answer to this name. Whoever runs it can add the name with "
                "--allowed-host.",
            )
        if self._keys is None or not path.startswith(("/v1/", "/metrics")):
            return None
        scheme, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() == "bearer" and self._keys.accepts(key.strip()):
            scope["state"]["client"] = hashlib.sha256(key.strip().encode("latin-1")).hexdigest()
            return None
        self._metrics.refused.labels("unauthorised").inc()
        return Problem(
            401,
            "unauthorised",
            "This server wants an API key: send the header 'Authorization: Bearer KEY'.",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _address(scope: Scope) -> str:
    """Who is calling, where there are no keys."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _host(headers: dict[bytes, Any]) -> str:
    """The name in the header, without its port.

    >>> _host({b"host": b"localhost:8080"}), _host({b"host": b"[::1]:80"})
    ('localhost', '::1')
    """
    name = str(headers.get(b"host", b"").decode("latin-1")).lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]
