"""The endpoints under ``/v1``, and the pages at ``/`` and ``/docs``."""

import base64
import contextlib
import hashlib
import mimetypes
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from tertium import __version__
from tertium.serve import schemas
from tertium.serve.errors import APIError
from tertium.serve.http import parse, read_body
from tertium.serve.protocol import Message
from tertium.serve.service import Service

__all__ = ["ENDPOINTS", "Call", "Endpoint", "json_response", "pages", "routes"]

_FOLDER = Path(__file__).parent / "page"
_PAGES = {"/": "index.html", "/docs": "docs.html"}
_STATUSES = {
    400: "The request is invalid.",
    401: "An API key is missing or wrong.",
    404: "No such model is served.",
    408: "The body arrived too slowly.",
    413: "The request is too large.",
    415: "The request is not JSON.",
    421: "The host name is not accepted.",
    429: "The queue is full; Retry-After says when to retry.",
    500: "The server failed.",
    503: "No worker, model or index is available.",
    504: "The deadline passed.",
}


@dataclass(frozen=True)
class Call:
    """A request to an endpoint.

    Attributes:
        service: the service that answers it.
        request: the HTTP request.
        size: size of its body in bytes.
    """

    service: Service
    request: Request
    size: int

    async def ask(
        self, kind: str, contents: Sequence[Any], *, count: int, param: str, **options: Any
    ) -> Message:
        """A worker's answer.

        Args:
            kind: the kind of work.
            contents: texts or triples.
            count: number of inputs.
            param: the field of the request that contains them.
            options: further fields for the worker.
        """
        most = self.service.settings.max_inputs
        if count > most:
            message = f"A request may have at most {most:,} inputs, not {count:,}. Send several."
            raise APIError(413, "too_many_inputs", message, param=param)
        head = {"kind": kind, "contents": contents, **options}
        return await self.service.ask(self.request, head, size=self.size)


@dataclass(frozen=True)
class Endpoint:
    """A path under ``/v1`` that takes a JSON body.

    Attributes:
        summary: its summary in the OpenAPI description.
        request: schema of the body.
        answer: schema of the answer.
        handle: computes the answer from the call and the body.
        errors: statuses beyond those that all endpoints share.
    """

    summary: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Callable[[Call, Any], Awaitable[Any]]
    errors: tuple[tuple[int, str], ...] = ()


async def _embeddings(call: Call, asked: schemas.EmbeddingsRequest) -> dict[str, Any]:
    """One unit-length vector per text."""
    name = call.service.model(asked.model).name
    found, body = await call.ask(
        *("embed", asked.input),
        count=len(asked.input),
        param="input",
        model=name,
        dimensions=asked.dimensions,
    )
    vectors: list[Any] = list(np.frombuffer(body, "<f4").reshape(found["shape"]))
    if asked.encoding_format == "base64":
        vectors = [base64.b64encode(vector).decode("ascii") for vector in vectors]
    data = [
        {"object": "embedding", "index": at, "embedding": vector}
        for at, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": name, **_usage(found)}


async def _similarity(call: Call, asked: schemas.SimilarityRequest) -> dict[str, Any]:
    """One score per pair, on the model's scale."""
    return _scores(await _compared(call, asked.pairs, asked.model, None, param="pairs"))


async def _conditional(call: Call, asked: schemas.ConditionalRequest) -> dict[str, Any]:
    """One score per triple of two texts and a condition."""
    name = call.service.model(asked.model, takes_conditions=True).name
    count = len(asked.triples)
    found, _ = await call.ask("grade", asked.triples, count=count, param="triples", model=name)
    return _scores({**found, "model": name})


async def _explain(call: Call, asked: schemas.ExplainRequest) -> dict[str, Any]:
    """How much each word contributes to the score of two texts."""
    name = call.service.model(asked.model, takes_conditions=asked.on is not None).name
    texts = [asked.a, asked.b, asked.on]
    found, _ = await call.ask("explain", texts, count=1, param="a", model=name)
    return {**found["explanation"], "model": name}


async def _search(call: Call, asked: schemas.SearchRequest) -> dict[str, Any]:
    """The nearest texts in the index, for each query."""
    index, settings = call.service.pool.index, call.service.settings
    if settings.index is None:
        raise APIError(
            503,
            "no_index",
            "No index is served: build one with 'tertium index build' and start the server with "
            "--index FOLDER.",
        )
    if index is None:
        message = "The index cannot be searched at the moment."
        raise APIError(503, "index_unavailable", message, headers={"Retry-After": "10"})
    if asked.model not in (None, index["name"]):
        message = f"The index is searched with '{index['name']}', not with '{asked.model}'."
        raise APIError(404, "model_not_found", message, param="model")
    if asked.top_k > settings.max_hits:
        message = f"top_k may be at most {settings.max_hits}."
        raise APIError(400, "too_many_hits", message, param="top_k")
    reranks = asked.on is not None or asked.rerank is not None
    if reranks and asked.rerank_top > settings.max_hits:
        message = f"rerank_top may be at most {settings.max_hits}."
        raise APIError(400, "too_many_hits", message, param="rerank_top")
    found, _ = await call.ask(
        *("search", asked.query),
        count=len(asked.query),
        param="query",
        top_k=max(asked.top_k, asked.rerank_top) if reranks else asked.top_k,
        threshold=asked.threshold,
        where=asked.where,
        hybrid=asked.hybrid,
    )
    results, usage = found["results"], _usage(found)
    if reranks:
        pairs = [
            (query, hit["text"] if hit["passage"] is None else hit["passage"])
            for query, hits in zip(asked.query, results, strict=True)
            for hit in hits
        ]
        scores = await _compared(call, pairs, asked.rerank, asked.on, param="rerank_top")
        rest = iter(scores["scores"] if pairs else [])
        results = [[{**hit, "score": next(rest)} for hit in hits] for hits in results]
        results = [sorted(hits, key=lambda hit: -hit["score"])[: asked.top_k] for hits in results]
    decision = index["decision"]
    return {"results": results, "decision": decision, "model": index["name"], **usage}


async def _rerank(call: Call, asked: schemas.RerankRequest) -> Any:
    """Texts ranked by their scores with a query, in the format of the client's API."""
    given = asked.texts or asked.documents or []
    texts = [each if isinstance(each, str) else each.text for each in given]
    found = await _compared(
        call, [(asked.query, text) for text in texts], asked.model, asked.on, param="documents"
    )
    low, high = (0.0, 1.0) if asked.raw_scores else found["scale"]
    scores = [(score - low) / (high - low) for score in found["scores"]]
    order = sorted(range(len(texts)), key=lambda at: -scores[at])[: asked.top_n]
    if asked.documents is None:
        shown = asked.return_text
        return [
            {"index": at, "score": scores[at], "text": texts[at] if shown else None} for at in order
        ]
    shown = asked.return_documents
    results = [
        {
            "index": at,
            "relevance_score": scores[at],
            "document": {"text": texts[at]} if shown else None,
        }
        for at in order
    ]
    name = found["model"]
    return {"id": str(uuid.uuid4()), "results": results, "model": name, **_usage(found)}


async def _compared(
    call: Call, pairs: Sequence[Sequence[str]], model: str | None, on: str | None, *, param: str
) -> dict[str, Any]:
    """Scores of pairs by a served model, optionally under a condition."""
    name = call.service.model(model, takes_conditions=on is not None).name
    if not pairs:
        return {"scores": [], "scale": [0.0, 1.0], "model": name, "tokens": 0, "cut": 0}
    if on is None:
        flat = [text for pair in pairs for text in pair]
        found, _ = await call.ask("score", flat, count=len(pairs), param=param, model=name)
    else:
        triples = [[*pair, on] for pair in pairs]
        found, _ = await call.ask("grade", triples, count=len(pairs), param=param, model=name)
    return {**found, "model": name}


ENDPOINTS: dict[str, Endpoint] = {
    "embeddings": Endpoint(
        "Embeddings of texts, compatible with OpenAI",
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
        "How similar they are under a condition",
        schemas.ConditionalRequest,
        schemas.ScoresAnswer,
        _conditional,
    ),
    "explain": Endpoint(
        "Which words account for a score",
        schemas.ExplainRequest,
        schemas.ExplainAnswer,
        _explain,
        errors=((501, "The model cannot explain its scores."),),
    ),
    "search": Endpoint(
        "The nearest texts in the index",
        schemas.SearchRequest,
        schemas.SearchAnswer,
        _search,
    ),
    "rerank": Endpoint(
        "Texts ranked by their scores with a query",
        schemas.RerankRequest,
        schemas.RerankAnswer,
        _rerank,
    ),
}


def routes(service: Service) -> APIRouter:
    """All paths under ``/v1``, with their OpenAPI descriptions."""
    router = APIRouter(prefix="/v1")
    for name, endpoint in ENDPOINTS.items():
        schema = endpoint.request.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)  # also part of the answers, which FastAPI describes
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
        """The models, their endpoints, and the size of the index."""
        return json_response({"object": "list", "data": _models(service), "version": __version__})

    router.add_api_route(
        "/models",
        models,
        methods=["GET"],
        summary="Models and index",
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
        return json_response(await endpoint.handle(Call(service, request, len(content)), asked))

    answer.__doc__ = endpoint.handle.__doc__
    return answer


@contextlib.contextmanager
def _receiving(service: Service) -> Iterator[None]:
    """Limit the number of bodies being received, which take no place in the queue."""
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


def _models(service: Service) -> list[dict[str, Any]]:
    found, index = [], service.pool.index
    for served in service.settings.served:
        known = service.pool.known.get(served.name, {})  # empty until it is loaded
        answers = ["conditional"] if served.takes_conditions else ["embeddings", "similarity"]
        answers += ["explain"] if known.get("explains", True) else []
        keys = ("scale", "dimension", "decision")
        size: dict[str, Any] = {key: known.get(key) for key in keys}
        found.append(_entry(served.name, answers, state=service.pool.state(served.name), **size))
    if index is not None:
        texts, columns = service.indexed()
        size = {key: index[key] for key in ("dimension", "decision")}
        size |= {"texts": texts, "columns": columns}
        found.append(_entry(index["name"], ["search"], scale=(-1.0, 1.0), **size))
    return found


def _entry(name: str, answers: list[str], **known: Any) -> dict[str, Any]:
    about = {"id": name, "object": "model", "created": 0, "owned_by": "tertium"}
    rest = dict.fromkeys(("scale", "dimension", "texts", "columns", "decision"))
    return {**about, "answers": answers, "state": "loaded", **rest, **known}


def _scores(found: dict[str, Any]) -> dict[str, Any]:
    keys = ("scores", "scale", "decisions", "decision", "model")
    return {**{key: found[key] for key in keys}, **_usage(found)}


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


def json_response(content: Any) -> Response:
    """A JSON response; numpy arrays are allowed."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


def pages(shown: Mapping[str, str] = _PAGES) -> APIRouter:
    """The pages and their assets, all from the package's own files.

    Args:
        shown: file name of the page at each path.
    """
    router = APIRouter(include_in_schema=False)
    files = {path.name: _load(path) for path in sorted(_FOLDER.iterdir()) if path.is_file()}

    async def page(request: Request) -> Response:
        return _file(request, *files[shown[request.url.path]])

    async def asset(request: Request, name: str) -> Response:
        if name not in files or name.endswith(".html"):
            raise APIError(404, "not_found", "There is no such file.")
        return _file(request, *files[name])

    for path in shown:
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
