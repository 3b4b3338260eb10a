"""Errors in the shape of OpenAI's: ``{"error": {"message", "type", "code", "param"}}``."""

import traceback
from collections.abc import Mapping

import orjson
from starlette.responses import Response

__all__ = ["APIError", "error_response", "where"]

_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    501: "not_implemented_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


class APIError(Exception):
    """An error that is sent to the client.

    Args:
        status: HTTP status.
        code: a machine-readable word.
        message: a sentence for people, with the remedy.
        param: the field of the request that is wrong, if any.
        headers: additional headers.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = dict(headers or {})


def error_response(error: APIError) -> Response:
    """The response that reports an error."""
    kind = _TYPES.get(error.status, "invalid_request_error")
    detail = {
        "message": error.message,
        "type": kind,
        "code": error.code,
        "param": error.param,
    }
    return Response(
        orjson.dumps({"error": detail}),
        status_code=error.status,
        media_type="application/json",
        headers=error.headers,
    )


def where(error: BaseException) -> str:
    """The type of an error and where it was raised, without its message, which may quote a text."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = ", ".join(f"{frame.name} in line {frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {places}"
