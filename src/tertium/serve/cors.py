"""Which pages of other origins may call the server."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from tertium.serve.problems import Problem, problem_response

__all__ = ["Cors"]


class Cors(CORSMiddleware):
    """The outermost layer, so that pages can read refusals, too.

    Args:
        app: what it lets requests to.
        origins: of these pages.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["Retry-After"],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """What a browser asks before it sends a request; a refusal has the shape of all others."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        told = {
            name: value
            for name, value in answer.headers.items()
            if name == "vary" or name.startswith("access-control-")
        }
        message = (
            f"{bytes(answer.body).decode()}: whoever runs the server can add an origin with "
            "--cors-origin."
        )
        return problem_response(Problem(400, "cors_refused", message, headers=told))
