"""The page at ``/``, the page of the interface at ``/docs``, and what they are made of."""

import hashlib
import mimetypes
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tertium.serve.problems import Problem

__all__ = ["pages"]

_FOLDER = Path(__file__).parent / "page"
_PATHS = {"/": "index.html", "/docs": "docs.html"}


def pages() -> APIRouter:
    """Files of the package, read once; nothing comes from elsewhere."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: _load(path) for path in sorted(_FOLDER.iterdir()) if path.is_file()}

    async def page(request: Request) -> Response:
        return _answer(request, *files[_PATHS[request.url.path]])

    async def asset(request: Request, name: str) -> Response:
        if name not in files or name.endswith(".html"):
            raise Problem(404, "not_found", "There is no such file.")
        return _answer(request, *files[name])

    for path in _PATHS:
        router.add_api_route(path, page, methods=["GET", "HEAD"])
    router.add_api_route("/assets/{name}", asset, methods=["GET", "HEAD"])
    return router


def _load(path: Path) -> tuple[bytes, str, str]:
    content = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    shown = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return content, shown, f'"{hashlib.sha256(content).hexdigest()[:16]}"'


def _answer(request: Request, content: bytes, kind: str, tag: str) -> Response:
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
