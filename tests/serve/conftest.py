"""A server in this process: the real application and a real worker, in a thread."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2 as httpx
import pytest

from tertium.serve.app import build_app, build_service
from tertium.serve.service import Service
from tertium.serve.settings import read_settings
from tests.serve.fakes import LOADER, launch_thread

Running = Callable[..., contextlib.AbstractAsyncContextManager["Here"]]


class Here(httpx.AsyncClient):
    """A client of a server in this process."""

    service: Service


@contextlib.asynccontextmanager
async def running(**flags: Any) -> AsyncIterator[Here]:
    settings = read_settings({"model": "hash", **flags})
    service = build_service(settings, launch=launch_thread, loader=LOADER)
    await service.start()
    try:
        transport = httpx.ASGITransport(app=build_app(service), raise_app_exceptions=True)
        async with Here(transport=transport, base_url="http://localhost") as client:
            client.service = service
            yield client
    finally:
        await service.pool.stop()


@pytest.fixture
def server() -> Running:
    return running
