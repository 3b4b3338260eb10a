"""A server on a port of this machine, in a thread of this process."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn

from tertium.serve.app import build_service, configured
from tertium.serve.service import Service
from tertium.serve.settings import read_settings
from tests.serve.fakes import LOADER, launch_thread


@dataclass
class Live:
    url: str
    port: int
    service: Service


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def live(*, loader: str = LOADER, **flags: Any) -> Iterator[Live]:
    settings = read_settings({"model": "hash", "conditional_model": "none", **flags})
    service = build_service(settings, launch=launch_thread, loader=loader)
    server = _Quiet(configured(service))
    listening = socket.create_server(("127.0.0.1", 0))
    ready = threading.Event()

    async def run() -> None:
        try:
            await service.start()
            ready.set()
            await server.serve(sockets=[listening])
        finally:
            await service.pool.stop()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(60)
    port = listening.getsockname()[1]
    try:
        yield Live(f"http://127.0.0.1:{port}", port, service)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
