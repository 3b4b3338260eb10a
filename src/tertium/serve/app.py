"""The application, and the server that runs it and shuts down gracefully."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import tertium
from tertium.errors import TertiumError
from tertium.serve import schemas
from tertium.serve.access import AccessMiddleware, KeyFile
from tertium.serve.errors import APIError, error_response
from tertium.serve.http import Cors, connections
from tertium.serve.metrics import Metrics
from tertium.serve.pool import Launch, Pool, spawn
from tertium.serve.protocol import LOADER, Spec
from tertium.serve.routes import ENDPOINTS, pages, routes
from tertium.serve.service import Service
from tertium.serve.settings import Settings

__all__ = [
    *("address", "api_error", "http_error", "listen"),
    *("build_app", "build_service", "configured", "serve"),
]

_LOG = logging.getLogger("tertium.serve")
_FIXED_PATHS = frozenset(
    {"/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/models"}
)
_CODES = {404: "not_found", 405: "method_not_allowed"}


def build_service(settings: Settings, *, launch: Launch = spawn, loader: str = LOADER) -> Service:
    """Worker pool and metrics, not yet started."""
    metrics = Metrics()
    pool = Pool(
        Spec(settings, loader),
        count=settings.workers,
        metrics=metrics,
        launch=launch,
        silence=settings.worker_timeout,
        batch=settings.batch_timeout,
    )
    return Service(settings, pool, metrics)


def build_app(service: Service) -> FastAPI:
    """The application; the caller starts and stops the service's workers."""
    settings, metrics = service.settings, service.metrics
    keys = None if settings.keys is None else KeyFile(settings.keys)
    app = FastAPI(
        title="tertium",
        version=tertium.__version__,
        summary="How similar are two texts, and in what way?",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(APIError, api_error)
    app.add_exception_handler(HTTPException, http_error)
    app.include_router(routes(service))
    _add_health(app, service)
    if settings.page:
        app.include_router(pages())
    app.add_middleware(
        AccessMiddleware,
        keys=keys,
        hosts=settings.hosts,
        metrics=metrics,
        routes=_FIXED_PATHS | {f"/v1/{name}" for name in ENDPOINTS},
        access_log=settings.access_log,
    )
    if settings.cors_origins:
        app.add_middleware(Cors, origins=settings.cors_origins)  # outermost
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    health: dict[str, Any] = {"model": schemas.Health}

    async def healthz() -> Response:
        """Whether the server is running."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz() -> Response:
        """Whether it can answer requests now, and search if there is an index."""
        able = service.pool.ready and not service.stopping
        word = "ok" if able else "stopping" if service.stopping else "loading"
        status: dict[str, Any] = {"status": word}
        if able and service.settings.index is not None:
            status["search"] = "unavailable" if service.pool.index is None else "ok"
        names = (served.name for served in service.settings.served)
        if failed := [name for name in names if service.pool.state(name) == "failed"]:
            status["failed"] = failed
        return Response(
            orjson.dumps(status),
            status_code=200 if able else 503,
            media_type="application/json",
        )

    async def metrics() -> Response:
        """Metrics in Prometheus format."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(service.metrics.text(), headers={"content-type": kind})

    error: dict[str, Any] = {"model": schemas.ErrorAnswer}
    wrong: dict[int | str, Any] = {421: {**error, "description": "The host name is not accepted."}}
    refusals = {**wrong, 401: {**error, "description": "An API key is missing or wrong."}}
    app.add_api_route("/healthz", healthz, responses={200: health, **wrong})
    app.add_api_route("/readyz", readyz, responses={200: health, 503: health, **wrong})
    for path, check in (("/healthz", healthz), ("/readyz", readyz)):
        app.add_api_route(path, check, methods=["HEAD"], include_in_schema=False)
    text: dict[str, Any] = {"description": "Metrics", "content": {"text/plain": {}}}
    app.add_api_route("/metrics", metrics, responses={200: text, **refusals})


async def api_error(request: Request, error: Exception) -> Response:
    """The response for an :class:`APIError`."""
    assert isinstance(error, APIError)
    return error_response(error)


async def http_error(request: Request, error: Exception) -> Response:
    """The response for an error of the framework, in the common shape."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "invalid_request")
    message = f"{error.detail}: see /docs for all endpoints."
    return error_response(
        APIError(error.status_code, code, message, headers=dict(error.headers or {}))
    )


def serve(
    settings: Settings, *, ready: Callable[[str, Service], None], loader: str = LOADER
) -> None:
    """Serve until a signal stops it.

    Args:
        settings: all settings.
        ready: called with the address and the service once it answers requests.
        loader: ``module:function`` that loads a model by name.
    """
    _set_up_logs()
    listening = listen(settings)
    service = build_service(settings, loader=loader)
    config = configured(service)
    server = _Server(config, service)
    runner = asyncio.Runner(loop_factory=config.get_loop_factory())
    with contextlib.closing(listening), runner:
        runner.run(_live(server, service, listening, ready))
    _LOG.info("stopped: %d accepted, %d answered", service.queue.accepted, service.queue.answered)


def configured(service: Service) -> uvicorn.Config:
    """The configuration of uvicorn."""
    settings = service.settings
    protocol: Any = connections(settings, service.metrics)
    return uvicorn.Config(
        build_app(service),
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",  # workers are started here, so that errors are reported in one sentence
        timeout_graceful_shutdown=round(settings.shutdown_grace) or 1,
        proxy_headers=False,
        ws="none",
    )


async def _live(
    server: "_Server",
    service: Service,
    listening: socket.socket,
    ready: Callable[[str, Service], None],
) -> None:
    with server.handling_signals():
        try:
            starting = asyncio.ensure_future(service.start())
            await asyncio.wait(
                (starting, asyncio.ensure_future(server.told.wait())),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not starting.done():
                starting.cancel()
                return
            await starting
            listening.listen(server.config.backlog)  # clients may connect once it says it is ready
            ready(address(listening), service)
            await server.serve(sockets=[listening])
        finally:
            await service.pool.stop()


class _Server(uvicorn.Server):
    """Finishes accepted requests on the first signal, and exits at once on the second."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.told = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: :meth:`handling_signals` does."""
        yield

    @contextlib.contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Install the handlers that stop the server."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        try:
            for number in numbers:
                loop.add_signal_handler(number, self._stop)
        except NotImplementedError:  # no such thing on Windows
            for number in numbers:
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self._stop))
        yield

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._service.stopping = True
        self.told.set()


def listen(settings: Settings) -> socket.socket:
    """A bound socket that does not listen yet."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise TertiumError(
            f"Cannot listen on {settings.host}, port {settings.port}: {error.strerror}. Choose "
            "another port with --port, or 0 for any free one."
        ) from None
    listening.set_inheritable(False)
    return listening


def address(listening: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _set_up_logs() -> None:
    """Log to standard error with time and level; only warnings from the HTTP library."""
    handler: Any = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    levels = {"tertium.serve": logging.INFO, "asyncio": logging.WARNING, "uvicorn": logging.WARNING}
    for name, level in levels.items():
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)
