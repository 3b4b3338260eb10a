"""The labelling page: one process, several raters, every answer saved to disk at once."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tertium.data.ratings import LabelFile, Pair, Rating
from tertium.serve.access import AccessMiddleware
from tertium.serve.app import address, api_error, http_error, listen
from tertium.serve.errors import APIError
from tertium.serve.http import parse, read_body
from tertium.serve.metrics import Metrics
from tertium.serve.routes import json_response, pages
from tertium.serve.settings import Settings

__all__ = ["Session", "build_app", "serve"]

_BODY = 1 << 16
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]


class _Rater(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    rater: Name


class _Answer(_Rater):
    id: int
    label: float | None = Field(None, description="Null skips the pair.")


@dataclass
class Session:
    """Pairs to label, and where the answers go.

    Attributes:
        pairs: the pairs, in the order in which they are shown.
        file: the answers.
        labels: labels by key, such as ``{"y": 1.0, "n": 0.0}``.
        words: the labels in words, for the page.
        skipped: pairs that each rater has skipped in this process.
        acts: each rater's actions, in order: the number of a skipped pair, or None for an answer.
    """

    pairs: Sequence[Pair]
    file: LabelFile
    labels: dict[str, float]
    words: dict[str, str]
    skipped: dict[str, list[int]] = field(default_factory=dict)
    acts: dict[str, list[int | None]] = field(default_factory=dict)

    def state(self, rater: str) -> dict[str, Any]:
        """The state of the page for a rater: the next pair, and how many are done."""
        rated = self.file.rated(rater)
        passed = self.skipped.get(rater, [])
        left = [at for at, pair in enumerate(self.pairs) if pair not in rated]
        open_ = [at for at in left if at not in passed]
        item = None
        if open_:
            first, second = self.pairs[open_[0]]
            item = {"id": open_[0], "texts": [first, second]}
        return {
            "item": item,
            "done": len(self.pairs) - len(left),
            "skipped": len([at for at in left if at in passed]),
            "total": len(self.pairs),
            "labels": [
                {"key": key, "word": self.words[key], "value": value}
                for key, value in self.labels.items()
            ],
        }

    def answer(self, rater: str, number: int, label: float | None) -> None:
        """Save an answer, or skip the pair."""
        if not 0 <= number < len(self.pairs):
            raise APIError(404, "no_such_pair", f"There is no pair {number}.", param="id")
        if label is None:
            self.skipped.setdefault(rater, []).append(number)
            self.acts.setdefault(rater, []).append(number)
            return
        if label not in self.labels.values():
            known = ", ".join(f"{value:g}" for value in self.labels.values())
            raise APIError(
                400, "no_such_label", f"The label must be one of {known}.", param="label"
            )
        pair = self.pairs[number]
        if pair in self.file.rated(rater):
            message = f"{rater} has already labelled this pair."
            raise APIError(409, "already_labelled", message, param="id")
        self.file.add(Rating(pair, rater, label))
        self.acts.setdefault(rater, []).append(None)

    def undo(self, rater: str) -> None:
        """Undo a rater's last action."""
        acts = self.acts.get(rater)
        last = acts.pop() if acts else None  # of an earlier process only answers are known
        if last is None:
            self.file.undo(rater)
        else:
            self.skipped[rater].remove(last)


def build_app(session: Session, *, hosts: tuple[str, ...]) -> FastAPI:
    """The page and its three calls."""
    app = FastAPI(title="tertium label", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(APIError, api_error)
    app.add_exception_handler(HTTPException, http_error)

    async def read(request: Request, kind: type[BaseModel]) -> Any:
        return parse(kind, await read_body(request, most=_BODY, seconds=10))

    async def state(request: Request) -> Response:
        asked = await read(request, _Rater)
        return json_response(session.state(asked.rater.strip()))

    async def answer(request: Request) -> Response:
        asked = await read(request, _Answer)
        session.answer(asked.rater.strip(), asked.id, asked.label)
        return json_response(session.state(asked.rater.strip()))

    async def undo(request: Request) -> Response:
        asked = await read(request, _Rater)
        session.undo(asked.rater.strip())
        return json_response(session.state(asked.rater.strip()))

    calls = {"/v1/label/state": state, "/v1/label": answer, "/v1/label/undo": undo}
    for path, call in calls.items():
        app.add_api_route(path, call, methods=["POST"])
    app.include_router(pages({"/": "label.html"}))
    app.add_middleware(
        AccessMiddleware,
        keys=None,
        hosts=hosts,
        metrics=Metrics(),
        routes=frozenset({"/", *calls}),
        access_log=False,
    )
    return app


def serve(
    session: Session, settings: Settings, *, ready: Callable[[str], None] = lambda url: None
) -> None:
    """Serve the page until Ctrl-C.

    Args:
        session: pairs and answers.
        settings: of which ``host``, ``port`` and ``hosts`` are used.
        ready: called with the address.
    """
    listening = listen(settings)
    app = build_app(session, hosts=settings.hosts)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    listening.listen()
    ready(address(listening))
    with contextlib.closing(listening), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.serve(sockets=[listening]))
