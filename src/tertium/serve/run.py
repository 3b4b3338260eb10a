"""The server on its port, from the first worker's readiness to the last accepted answer."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from tertium.errors import TertiumError
from tertium.serve.app import build_app, build_service
from tertium.serve.connection import connections
from tertium.serve.service import Service
from tertium.serve.settings import Settings
from tertium.serve.spec import LOADER

__all__ = ["configured", "serve"]

_LOG = logging.getLogger("tertium.serve")


def serve(
    settings: Settings, *, ready: Callable[[str, Service], None], loader: str = LOADER
) -> None:
    """Serve until told to stop.

    Args:
        settings: how.
        ready: called with the address and what is served, once requests are answered.
        loader: ``module:function`` that gives a model by its name.
    """
    _set_up_logs()
    listening = _listen(settings)
    service = build_service(settings, loader=loader)
    config = configured(service)
    server = _Server(config, service)
    runner = asyncio.Runner(loop_factory=config.get_loop_factory())
    with contextlib.closing(listening), runner:
        runner.run(_live(server, service, listening, ready))
    _LOG.info("stopped: %d accepted, %d answered", service.queue.accepted, service.queue.answered)


def configured(service: Service) -> uvicorn.Config:
    """How HTTP is spoken."""
    settings = service.settings
    protocol: Any = connections(settings, service.metrics)
    return uvicorn.Config(
        build_app(service),
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",  # started here, so that what goes wrong is told in one sentence
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
            listening.listen(server.config.backlog)  # whoever hears that it is ready may connect
            ready(_address(listening), service)
            await server.serve(sockets=[listening])
        finally:
            await service.pool.stop()


class _Server(uvicorn.Server):
    """Ends quietly on a signal, having answered what it accepted; at once on the second."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self.told = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours are set already."""
        yield

    @contextlib.contextmanager
    def handling_signals(self) -> Iterator[None]:
        """From now on a signal asks the server to stop."""
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


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise TertiumError(
            f"Cannot listen on {settings.host}, port {settings.port}: {error.strerror}. Choose "
            "another one with --port, or 0 for any that is free."
        ) from None
    listening.set_inheritable(False)
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _set_up_logs() -> None:
    """Lines with time and level on standard error; those of the HTTP library from warnings on."""
    handler: Any = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    levels = {"tertium.serve": logging.INFO}
    for name, level in {**levels, **dict.fromkeys(("asyncio", "uvicorn"), logging.WARNING)}.items():
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)
