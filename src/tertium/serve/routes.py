"""What the paths under /v1 do: a request in, a worker's answer out."""

import base64
import contextlib
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import orjson
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from tertium.serve import schemas
from tertium.serve.body import parse, read_body
from tertium.serve.problems import Problem
from tertium.serve.service import Service

__all__ = ["Calls"]

Model = TypeVar("Model", bound=BaseModel)

_JSON = "application/json"


class Calls:
    """What each path does."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def embeddings(self, request: Request) -> Response:
        """One vector of length 1 for each text."""
        asked, size = await self._read(request, schemas.EmbeddingsRequest)
        about = self._service.about
        _check_model(asked.model, about.name)
        if asked.dimensions is not None and asked.dimensions > about.dimension:
            message = f"{about.name} has {about.dimension} dimensions, not {asked.dimensions}."
            raise Problem(400, "too_many_dimensions", message, param="dimensions")
        head = {"kind": "embed", "contents": asked.input, "dimensions": asked.dimensions}
        found, body = await self._ask(request, head, size, count=len(asked.input), param="input")
        vectors = np.frombuffer(body, "<f4").reshape(found["shape"])
        shown = _base64(vectors) if asked.encoding_format == "base64" else list(vectors)
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(shown)
        ]
        return _json({"object": "list", "data": data, "model": about.name, **_counts(found)})

    async def similarity(self, request: Request) -> Response:
        """One score for each pair, on the scale of the model."""
        asked, size = await self._read(request, schemas.SimilarityRequest)
        about = self._service.about
        _check_model(asked.model, about.name)
        texts = [text for pair in asked.pairs for text in pair]
        head = {"kind": "score", "contents": texts}
        found, _ = await self._ask(request, head, size, count=len(asked.pairs), param="pairs")
        scores = {"scores": found["scores"], "scale": about.scale, "model": about.name}
        return _json({**scores, **_counts(found)})

    async def conditional(self, request: Request) -> Response:
        """One score for each triple of two texts and a condition."""
        asked, size = await self._read(request, schemas.ConditionalRequest)
        about = self._conditional()
        _check_model(asked.model, about["name"])
        head = {"kind": "grade", "contents": asked.triples}
        found, _ = await self._ask(request, head, size, count=len(asked.triples), param="triples")
        scores = {"scores": found["scores"], "scale": about["scale"], "model": about["name"]}
        return _json({**scores, **_counts(found)})

    async def explain(self, request: Request) -> Response:
        """Contributions of words to the score of two texts."""
        asked, size = await self._read(request, schemas.ExplainRequest)
        about = self._service.about
        name, able = about.name, about.explains
        if asked.on is not None:
            conditional = self._conditional()
            name, able = conditional["name"], conditional["explains"]
        _check_model(asked.model, name)
        if not able:
            raise Problem(501, "no_explanation", f"{name} does not explain its scores.")
        head = {"kind": "explain", "contents": [asked.a, asked.b, asked.on]}
        found, _ = await self._ask(request, head, size, count=1, param="a")
        return _json({**found["explanation"], "model": name})

    async def search(self, request: Request) -> Response:
        """The texts of the index that are nearest to each query."""
        asked, size = await self._read(request, schemas.SearchRequest)
        index = self._service.pool.index
        if self._service.settings.index is None:
            raise Problem(
                503,
                "no_index",
                "No index is served: build one with 'tertium index build' and name its folder "
                "with --index.",
            )
        if index is None:
            message = "The index cannot be searched at the moment."
            raise Problem(503, "index_unavailable", message, headers={"Retry-After": "10"})
        _check_model(asked.model, index["name"])
        most = self._service.settings.max_hits
        if asked.k > most:
            raise Problem(400, "too_many_hits", f"k may be {most} at most.", param="k")
        head = {"kind": "search", "contents": asked.query, "k": asked.k}
        head["threshold"] = asked.threshold
        found, _ = await self._ask(request, head, size, count=len(asked.query), param="query")
        return _json({"results": found["results"], "model": index["name"], **_counts(found)})

    async def models(self, request: Request) -> Response:
        """The models, what they answer, and how many texts there are to search."""
        about = self._service.about
        answers = ["embeddings", "similarity", *(["explain"] if about.explains else [])]
        found = [_entry(about.name, answers, scale=about.scale, dimension=about.dimension)]
        if about.conditional is not None:
            answers = ["conditional", *(["explain"] if about.conditional["explains"] else [])]
            found.append(
                _entry(about.conditional["name"], answers, scale=about.conditional["scale"])
            )
        if (index := self._service.pool.index) is not None:
            found.append(
                _entry(
                    index["name"],
                    ["search"],
                    dimension=index["dimension"],
                    texts=self._service.indexed(),
                )
            )
        return _json({"object": "list", "data": found})

    async def _read(self, request: Request, model: type[Model]) -> tuple[Model, int]:
        settings = self._service.settings
        left = request.state.arrived + settings.deadline - time.monotonic()
        with self._reading():
            content = await read_body(request, most=settings.max_body_bytes, seconds=left)
        return parse(model, content), len(content)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Slow bodies take no places of the queue, but there may not be any number of them."""
        service = self._service
        if service.reading >= 4 * service.settings.queue_requests:
            service.metrics.refused.labels("queue_full").inc()
            raise Problem(
                429,
                "queue_full",
                "Too many requests are being sent.",
                headers={"Retry-After": str(service.queue.pause())},
            )
        service.reading += 1
        try:
            yield
        finally:
            service.reading -= 1

    async def _ask(
        self, request: Request, head: dict[str, Any], size: int, *, count: int, param: str
    ) -> tuple[dict[str, Any], bytes]:
        most = self._service.settings.max_inputs
        if count > most:
            message = f"{count:,} inputs are more than the {most:,} of one request. Send several."
            raise Problem(413, "too_many_inputs", message, param=param)
        return await self._service.ask(request, head, size=size)

    def _conditional(self) -> dict[str, Any]:
        found = self._service.about.conditional
        if found is None:
            raise Problem(
                503,
                "no_conditional_model",
                "No model that takes conditions is served: it was switched off with "
                "--conditional-model none.",
            )
        return found


def _check_model(asked: str | None, served: str) -> None:
    if asked not in (None, served):
        raise Problem(
            404, "model_not_found", f"This is answered by the model '{served}'.", param="model"
        )


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


def _counts(found: dict[str, Any]) -> dict[str, Any]:
    tokens = found["tokens"]
    return {
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "truncated": found["cut"],
    }


def _base64(vectors: np.ndarray) -> list[str]:
    return [base64.b64encode(vector).decode("ascii") for vector in vectors]


def _json(content: dict[str, Any]) -> Response:
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=_JSON)
