"""A server in this process: the real application and a real worker, in a thread."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx2 as httpx

from tertium.serve.app import build_app, build_service
from tertium.serve.pool import Launch
from tertium.serve.service import Service
from tertium.serve.settings import read_settings
from tests.serve.fakes import LOADER, launch_thread


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """An asynchronous test as pytest runs it."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Here(httpx.AsyncClient):
    """A client of a server in this process."""

    service: Service


@contextlib.asynccontextmanager
async def running(*, launch: Launch = launch_thread, **flags: Any) -> AsyncIterator[Here]:
    settings = read_settings({"model": "hash", "conditional_model": "none", **flags})
    service = build_service(settings, launch=launch, loader=LOADER)
    try:
        await service.start()
        transport = httpx.ASGITransport(app=build_app(service), raise_app_exceptions=True)
        async with Here(transport=transport, base_url="http://localhost") as client:
            client.service = service
            yield client
    finally:
        await service.pool.stop()
