"""Bodies of requests: read within limits, and checked."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from tertium.serve.problems import Problem

__all__ = ["parse", "read_body"]

Model = TypeVar("Model", bound=BaseModel)

_CLOSE = {"Connection": "close"}  # the rest of the body is not wanted


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """The body, unless it is larger than ``most`` or takes longer than ``seconds`` to arrive."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415, "not_json", "Send JSON, with the header 'Content-Type: application/json'."
        )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            return await _collect(request, most)
    except TimeoutError:
        raise Problem(
            408,
            "slow_body",
            f"The request did not arrive whole within {seconds:.0f} s.",
            headers=_CLOSE,
        ) from None


def parse(model: type[Model], content: bytes) -> Model:
    """What the body says, or the first thing that is wrong with it."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    code = "invalid_json" if first["type"] == "json_invalid" else "invalid_request"
    if first["type"] == "token_array":
        code = "token_array"
    where = f"{place}: " if place else ""
    raise Problem(400, code, f"{where}{first['msg']}.", param=place or None)


async def _collect(request: Request, most: int) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
    except ClientDisconnect:
        raise Problem(499, "client_gone", "The client went away.") from None
    return b"".join(parts)


def _too_large(most: int) -> Problem:
    message = f"A request may have {most:,} bytes. Send fewer texts at a time."
    return Problem(413, "body_too_large", message, headers=_CLOSE)
