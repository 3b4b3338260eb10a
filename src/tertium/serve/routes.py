"""The endpoints under ``/v1``, and the pages at ``/`` and ``/docs``."""

import base64
import contextlib
import hashlib
import mimetypes
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from tertium.serve import schemas
from tertium.serve.errors import APIError
from tertium.serve.http import parse, read_body
from tertium.serve.protocol import Message
from tertium.serve.service import Service

__all__ = ["ENDPOINTS", "Call", "Endpoint", "pages", "routes"]

_FOLDER = Path(__file__).parent / "page"
_PAGES = {"/": "index.html", "/docs": "docs.html"}
_STATUSES = {
    400: "The request is not as it must be.",
    401: "An API key is missing or wrong.",
    404: "No such model is served.",
    408: "The body came too slowly.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    421: "The server does not answer to this name.",
    429: "The queue is full; Retry-After says when to come back.",
    500: "The server failed.",
    503: "Nothing here can answer.",
    504: "The deadline passed.",
}


@dataclass(frozen=True)
class Call:
    """A request to an endpoint.

    Attributes:
        service: what answers it.
        request: as it came over HTTP.
        size: bytes of its body.
    """

    service: Service
    request: Request
    size: int

    async def ask(
        self, kind: str, contents: Sequence[Any], *, count: int, param: str, **options: Any
    ) -> Message:
        """A worker's answer.

        Args:
            kind: what the worker is to do.
            contents: texts or triples.
            count: how many inputs they are.
            param: the field of the request that holds them.
            options: further fields for the worker.
        """
        most = self.service.settings.max_inputs
        if count > most:
            message = f"{count:,} inputs are more than the {most:,} of one request. Send several."
            raise APIError(413, "too_many_inputs", message, param=param)
        head = {"kind": kind, "contents": contents, **options}
        return await self.service.ask(self.request, head, size=self.size)


@dataclass(frozen=True)
class Endpoint:
    """A path under ``/v1`` that takes a JSON body.

    Attributes:
        summary: a line for the description of the interface.
        request: what the body must hold.
        answer: what the answer holds.
        handle: makes it, given the call and the body.
        errors: statuses beyond those that every endpoint may answer with.
    """

    summary: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Callable[[Call, Any], Awaitable[dict[str, Any]]]
    errors: tuple[tuple[int, str], ...] = ()


async def _embeddings(call: Call, asked: schemas.EmbeddingsRequest) -> dict[str, Any]:
    """One vector of length 1 for each text."""
    about = call.service.about
    _check_model(asked.model, about.name)
    if asked.dimensions is not None and asked.dimensions > about.dimension:
        message = f"{about.name} has {about.dimension} dimensions, not {asked.dimensions}."
        raise APIError(400, "too_many_dimensions", message, param="dimensions")
    found, body = await call.ask(
        *("embed", asked.input),
        count=len(asked.input),
        param="input",
        dimensions=asked.dimensions,
    )
    vectors: list[Any] = list(np.frombuffer(body, "<f4").reshape(found["shape"]))
    if asked.encoding_format == "base64":
        vectors = [base64.b64encode(vector).decode("ascii") for vector in vectors]
    data = [
        {"object": "embedding", "index": at, "embedding": vector}
        for at, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": about.name, **_usage(found)}


async def _similarity(call: Call, asked: schemas.SimilarityRequest) -> dict[str, Any]:
    """One score for each pair, on the scale of the model."""
    about = call.service.about
    _check_model(asked.model, about.name)
    texts = [text for pair in asked.pairs for text in pair]
    found, _ = await call.ask("score", texts, count=len(asked.pairs), param="pairs")
    scores = {"scores": found["scores"], "scale": about.scale, "model": about.name}
    return {**scores, **_usage(found)}


async def _conditional(call: Call, asked: schemas.ConditionalRequest) -> dict[str, Any]:
    """One score for each triple of two texts and a condition."""
    about = _conditional_model(call.service)
    _check_model(asked.model, about["name"])
    found, _ = await call.ask("grade", asked.triples, count=len(asked.triples), param="triples")
    scores = {"scores": found["scores"], "scale": about["scale"], "model": about["name"]}
    return {**scores, **_usage(found)}


async def _explain(call: Call, asked: schemas.ExplainRequest) -> dict[str, Any]:
    """Contributions of words to the score of two texts."""
    name, able = call.service.about.name, call.service.about.explains
    if asked.on is not None:
        conditional = _conditional_model(call.service)
        name, able = conditional["name"], conditional["explains"]
    _check_model(asked.model, name)
    if not able:
        raise APIError(501, "no_explanation", f"{name} does not explain its scores.")
    found, _ = await call.ask("explain", [asked.a, asked.b, asked.on], count=1, param="a")
    return {**found["explanation"], "model": name}


async def _search(call: Call, asked: schemas.SearchRequest) -> dict[str, Any]:
    """The texts of the index that are nearest to each query."""
    index, settings = call.service.pool.index, call.service.settings
    if settings.index is None:
        raise APIError(
            503,
            "no_index",
            "No index is served: build one with 'tertium index build' and name its folder "
            "with --index.",
        )
    if index is None:
        message = "The index cannot be searched at the moment."
        raise APIError(503, "index_unavailable", message, headers={"Retry-After": "10"})
    _check_model(asked.model, index["name"])
    if asked.k > settings.max_hits:
        message = f"k may be {settings.max_hits} at most."
        raise APIError(400, "too_many_hits", message, param="k")
    found, _ = await call.ask(
        *("search", asked.query),
        count=len(asked.query),
        param="query",
        k=asked.k,
        threshold=asked.threshold,
    )
    return {"results": found["results"], "model": index["name"], **_usage(found)}


ENDPOINTS: dict[str, Endpoint] = {
    "embeddings": Endpoint(
        "Vectors of texts, as OpenAI gives them",
        schemas.EmbeddingsRequest,
        schemas.EmbeddingsAnswer,
        _embeddings,
    ),
    "similarity": Endpoint(
        "How similar pairs of texts are",
        schemas.SimilarityRequest,
        schemas.ScoresAnswer,
        _similarity,
    ),
    "conditional": Endpoint(
        "How alike they are in a given respect",
        schemas.ConditionalRequest,
        schemas.ScoresAnswer,
        _conditional,
    ),
    "explain": Endpoint(
        "Which words made a score",
        schemas.ExplainRequest,
        schemas.ExplainAnswer,
        _explain,
        errors=((501, "The model cannot."),),
    ),
    "search": Endpoint(
        "The nearest texts of the index",
        schemas.SearchRequest,
        schemas.SearchAnswer,
        _search,
    ),
}


def routes(service: Service) -> APIRouter:
    """All paths under ``/v1``, as the description of the interface states them."""
    router = APIRouter(prefix="/v1")
    for name, endpoint in ENDPOINTS.items():
        schema = endpoint.request.model_json_schema()
        router.add_api_route(
            f"/{name}",
            _answering(endpoint, service),
            methods=["POST"],
            summary=endpoint.summary,
            operation_id=name,
            responses={
                200: {"model": endpoint.answer},
                **_errors({**_STATUSES, **dict(endpoint.errors)}),
            },
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": schema}},
                }
            },
        )

    async def models() -> Response:
        """The models, what they answer, and how many texts there are to search."""
        return _json({"object": "list", "data": _models(service)})

    router.add_api_route(
        "/models",
        models,
        methods=["GET"],
        summary="What is served",
        operation_id="models",
        responses={
            200: {"model": schemas.ModelsAnswer},
            **_errors({status: _STATUSES[status] for status in (401, 421)}),
        },
    )
    return router


def _answering(endpoint: Endpoint, service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        left = request.state.arrived + service.settings.deadline - time.monotonic()
        with _receiving(service):
            most = service.settings.max_body_bytes
            content = await read_body(request, most=most, seconds=left)
        asked = parse(endpoint.request, content)
        return _json(await endpoint.handle(Call(service, request, len(content)), asked))

    answer.__doc__ = endpoint.handle.__doc__
    return answer


@contextlib.contextmanager
def _receiving(service: Service) -> Iterator[None]:
    """Slow bodies take no places of the queue, but their number is limited, too."""
    if service.receiving >= 4 * service.settings.queue_requests:
        service.metrics.refused.labels("queue_full").inc()
        raise APIError(
            429,
            "queue_full",
            "Too many requests are being sent.",
            headers={"Retry-After": str(service.queue.pause())},
        )
    service.receiving += 1
    try:
        yield
    finally:
        service.receiving -= 1


def _conditional_model(service: Service) -> dict[str, Any]:
    if service.about.conditional is None:
        raise APIError(
            503,
            "no_conditional_model",
            "No model that takes conditions is served: it was switched off with "
            "--conditional-model none.",
        )
    return service.about.conditional


def _check_model(asked: str | None, served: str) -> None:
    if asked not in (None, served):
        raise APIError(
            404, "model_not_found", f"This is answered by the model '{served}'.", param="model"
        )


def _models(service: Service) -> list[dict[str, Any]]:
    about, index = service.about, service.pool.index
    answers = ["embeddings", "similarity", *(["explain"] if about.explains else [])]
    found = [_entry(about.name, answers, scale=about.scale, dimension=about.dimension)]
    if (conditional := about.conditional) is not None:
        answers = ["conditional", *(["explain"] if conditional["explains"] else [])]
        found.append(_entry(conditional["name"], answers, scale=conditional["scale"]))
    if index is not None:
        size = {"dimension": index["dimension"], "texts": service.indexed()}
        found.append(_entry(index["name"], ["search"], **size))
    return found


def _entry(
    name: str,
    answers: list[str],
    *,
    scale: Any = (-1.0, 1.0),
    dimension: int | None = None,
    texts: int | None = None,
) -> dict[str, Any]:
    about = {"id": name, "object": "model", "created": 0, "owned_by": "tertium"}
    return {**about, "answers": answers, "scale": scale, "dimension": dimension, "texts": texts}


def _usage(found: dict[str, Any]) -> dict[str, Any]:
    tokens = found["tokens"]
    return {
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "truncated": found["cut"],
    }


def _errors(statuses: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": schemas.ErrorAnswer, "description": text}
        for status, text in statuses.items()
    }


def _json(content: dict[str, Any]) -> Response:
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


def pages() -> APIRouter:
    """Files of the package, read once; nothing comes from elsewhere."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: _load(path) for path in sorted(_FOLDER.iterdir()) if path.is_file()}

    async def page(request: Request) -> Response:
        return _file(request, *files[_PAGES[request.url.path]])

    async def asset(request: Request, name: str) -> Response:
        if name not in files or name.endswith(".html"):
            raise APIError(404, "not_found", "There is no such file.")
        return _file(request, *files[name])

    for path in _PAGES:
        router.add_api_route(path, page, methods=["GET", "HEAD"])
    router.add_api_route("/assets/{name}", asset, methods=["GET", "HEAD"])
    return router


def _load(path: Path) -> tuple[bytes, str, str]:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    shown = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return content, shown, f'"{hashlib.sha256(content).hexdigest()[:16]}"'


def _file(request: Request, content: bytes, kind: str, tag: str) -> Response:
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
