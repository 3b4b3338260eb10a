"""The application: routes behind a gate."""

import os
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import tertium
from tertium.serve import schemas
from tertium.serve.birth import spawn
from tertium.serve.cors import Cors
from tertium.serve.gate import Gate
from tertium.serve.keys import KeyFile
from tertium.serve.member import Launch
from tertium.serve.metrics import Metrics
from tertium.serve.pages import pages
from tertium.serve.paths import routes
from tertium.serve.pool import Pool
from tertium.serve.problems import Problem, problem_response
from tertium.serve.service import Service
from tertium.serve.settings import Settings
from tertium.serve.spec import LOADER, spec_of

__all__ = ["build_app", "build_service"]

_WORDS = {404: "not_found", 405: "method_not_allowed"}


def build_service(settings: Settings, *, launch: Launch = spawn, loader: str = LOADER) -> Service:
    """Workers and counters, not yet started."""
    metrics = Metrics()
    threads = settings.threads or max((os.cpu_count() or 1) // settings.workers, 1)
    spec = spec_of(settings, threads=threads, loader=loader)
    pool = Pool(
        spec,
        count=settings.workers,
        metrics=metrics,
        launch=launch,
        silence=settings.worker_timeout,
        batch=settings.batch_timeout,
    )
    return Service(settings, pool, metrics)


def build_app(service: Service) -> FastAPI:
    """The application of a service, whose workers somebody else starts and stops."""
    settings, metrics = service.settings, service.metrics
    keys = None if settings.keys is None else KeyFile(settings.keys)
    app = FastAPI(
        title="tertium",
        version=tertium.__version__,
        summary="How alike are these texts, and in which respect?",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.include_router(routes(service))
    _add_health(app, service)
    if settings.page:
        app.include_router(pages())
    app.add_middleware(
        Gate,
        keys=keys,
        hosts=settings.hosts,
        metrics=metrics,
        access_log=settings.access_log,
    )
    if settings.cors_origins:
        app.add_middleware(Cors, origins=settings.cors_origins)  # around the gate
    return app


def _add_health(app: FastAPI, service: Service) -> None:
    health: dict[str, Any] = {"model": schemas.Health}

    async def healthz() -> Response:
        """Whether the server runs at all."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def readyz() -> Response:
        """Whether it can answer now, and search if there is an index."""
        able = service.pool.ready and not service.stopping
        word = "ok" if able else "stopping" if service.stopping else "loading"
        told = {"status": word}
        if able and service.settings.index is not None:
            told["search"] = "unavailable" if service.pool.index is None else "ok"
        return Response(
            orjson.dumps(told),
            status_code=200 if able else 503,
            media_type="application/json",
        )

    async def metrics() -> Response:
        """Counters, in the format of Prometheus."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(service.metrics.text(), headers={"content-type": kind})

    error: dict[str, Any] = {"model": schemas.ErrorAnswer}
    wrong: dict[int | str, Any] = {421: {**error, "description": "Another name is wanted."}}
    refusals = {**wrong, 401: {**error, "description": "An API key is missing or wrong."}}
    app.add_api_route("/healthz", healthz, responses={200: health, **wrong})
    app.add_api_route("/readyz", readyz, responses={200: health, 503: health, **wrong})
    for path, check in (("/healthz", healthz), ("/readyz", readyz)):
        app.add_api_route(path, check, methods=["HEAD"], include_in_schema=False)
    text: dict[str, Any] = {"description": "Counters", "content": {"text/plain": {}}}
    app.add_api_route("/metrics", metrics, responses={200: text, **refusals})


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _WORDS.get(error.status_code, "invalid_request")
    message = f"{error.detail}: /docs lists what there is."
    return problem_response(
        Problem(error.status_code, code, message, headers=dict(error.headers or {}))
    )
