"""The paths under /v1, as the description of the interface tells them."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from tertium.serve import schemas
from tertium.serve.routes import Calls
from tertium.serve.service import Service

__all__ = ["routes"]

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
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorAnswer, "description": text}
    for status, text in _STATUSES.items()
}


def routes(service: Service) -> APIRouter:
    """All of them."""
    calls = Calls(service)
    router = APIRouter(prefix="/v1")
    paths: tuple[tuple[str, Any, type[BaseModel], type[BaseModel], str], ...] = (
        (
            "/embeddings",
            calls.embeddings,
            schemas.EmbeddingsRequest,
            schemas.EmbeddingsAnswer,
            "Vectors of texts, as OpenAI gives them",
        ),
        (
            "/similarity",
            calls.similarity,
            schemas.SimilarityRequest,
            schemas.ScoresAnswer,
            "How alike pairs of texts are",
        ),
        (
            "/conditional",
            calls.conditional,
            schemas.ConditionalRequest,
            schemas.ScoresAnswer,
            "How alike they are in a given respect",
        ),
        (
            "/explain",
            calls.explain,
            schemas.ExplainRequest,
            schemas.ExplainAnswer,
            "Which words made a score",
        ),
        (
            "/search",
            calls.search,
            schemas.SearchRequest,
            schemas.SearchAnswer,
            "The nearest texts of the index",
        ),
    )
    for path, call, asked, answered, summary in paths:
        extra: dict[int | str, Any] = {501: _error("The model cannot.")}
        router.add_api_route(
            path,
            call,
            methods=["POST"],
            summary=summary,
            operation_id=path.strip("/"),
            responses={
                200: {"model": answered},
                **_ERRORS,
                **(extra if path == "/explain" else {}),
            },
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": asked.model_json_schema()}},
                }
            },
        )
    router.add_api_route(
        "/models",
        calls.models,
        methods=["GET"],
        summary="What is served",
        operation_id="models",
        responses={200: {"model": schemas.ModelsAnswer}, 401: _ERRORS[401], 421: _ERRORS[421]},
    )
    return router


def _error(description: str) -> dict[str, Any]:
    return {"model": schemas.ErrorAnswer, "description": description}
