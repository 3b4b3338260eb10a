"""A thin client of ``tertium serve``: vectors and scores in, no models and no torch.

>>> from tertium.client import Client
>>> client = Client("http://127.0.0.1:8080")                            # doctest: +SKIP
>>> client.similarity([("A cat sleeps.", "A kitten is napping.")])      # doctest: +SKIP
"""

import base64
import http.client
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.types import Hit

__all__ = ["Client", "Hit", "Scores", "ServerError"]

_AGAIN = {429, 503}  # try again later, says the server
_LONGEST_PAUSE = 30.0


class ServerError(TertiumError):
    """What the server said instead of an answer.

    Attributes:
        status: of the response.
        code: the server's word for it.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Scores:
    """Scores in the order of what was asked, and the ends of their scale."""

    values: NDArray[np.float32]
    scale: tuple[float, float]
    model: str


class Client:
    """Asks a server, over one connection that stays open. Not for several threads at once.

    Args:
        url: where the server is.
        key: an API key, if the server wants one.
        timeout: seconds to wait for an answer.
        retries: how often to come back when the queue is full or the connection was closed.
        batch: texts, pairs or triples of one request.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        timeout: float = 60.0,
        retries: int = 5,
        batch: int = 64,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise TertiumError(f"'{url}' is not an address such as http://127.0.0.1:8080.")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._url = url
        self._base = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._retries = retries
        self._batch = batch

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def embed(
        self, texts: Iterable[str], *, dimensions: int | None = None, model: str | None = None
    ) -> NDArray[np.float32]:
        """One vector of length 1 for each text; ``model`` is for a server that has several."""
        rows: list[NDArray[np.float32]] = []
        for part in self._parts(texts):
            asked = {"input": part, "encoding_format": "base64", "dimensions": dimensions}
            found = self._ask("embeddings", {**asked, "model": model})
            rows += [np.frombuffer(base64.b64decode(x["embedding"]), "<f4") for x in found["data"]]
        return np.stack(rows) if rows else np.empty((0, 0), np.float32)

    def similarity(self, pairs: Iterable[tuple[str, str]], *, model: str | None = None) -> Scores:
        """How similar the texts of each pair are."""
        return self._scores("similarity", "pairs", pairs, model)

    def conditional(
        self, triples: Iterable[tuple[str, str, str]], *, model: str | None = None
    ) -> Scores:
        """How similar two texts are under a condition, for each triple."""
        return self._scores("conditional", "triples", triples, model)

    def explain(
        self, a: str, b: str, *, on: str | None = None, model: str | None = None
    ) -> dict[str, Any]:
        """Which words made the score of two texts, as ``tertium explain --json`` prints it."""
        return self._ask("explain", {"a": a, "b": b, "on": on, "model": model})

    def search(
        self,
        queries: Sequence[str],
        *,
        k: int = 10,
        threshold: float | None = None,
        where: str | None = None,
        hybrid: bool = False,
        rerank: str | None = None,
        on: str | None = None,
    ) -> list[list[Hit]]:
        """The nearest texts of the server's index, for each query.

        Args:
            queries: any texts.
            k: how many.
            threshold: leave out what has a smaller cosine.
            where: only texts that meet this filter.
            hybrid: rank by vectors and by words together.
            rerank: a served model that puts the first hits in order.
            on: the respect in which they are put in order.
        """
        found: list[list[Hit]] = []
        for part in self._parts(queries):
            asked = {"query": part, "k": k, "threshold": threshold, "where": where}
            asked |= {"hybrid": hybrid, "rerank": rerank, "on": on}
            found += [
                [Hit(**hit) for hit in hits] for hits in self._ask("search", asked)["results"]
            ]
        return found

    def models(self) -> list[dict[str, Any]]:
        """What is served."""
        return cast(list[dict[str, Any]], self._ask("models", None)["data"])

    def _scores(
        self, path: str, field: str, items: Iterable[Sequence[str]], model: str | None
    ) -> Scores:
        values: list[float] = []
        answer: dict[str, Any] = {}
        for part in self._parts(items):
            answer = self._ask(path, {field: part, "model": model})
            values += answer["scores"]
        if not values:
            raise TertiumError(f"There are no {field} to score.")
        scale = (answer["scale"][0], answer["scale"][1])
        return Scores(np.array(values, np.float32), scale, answer["model"])

    def _parts(self, items: Iterable[Any]) -> Iterable[list[Any]]:
        part: list[Any] = []
        for item in items:
            part.append(item)
            if len(part) == self._batch:
                yield part
                part = []
        if part:
            yield part

    def _ask(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                status, pause, answer = self._send(path, body)
            except (ConnectionError, http.client.RemoteDisconnected) as error:
                self.close()
                if last:
                    raise TertiumError(f"No server answers at {self._url}.") from error
                time.sleep(min(0.1 * 2**attempt, _LONGEST_PAUSE))
                continue
            except OSError as error:
                self.close()
                raise TertiumError(f"{self._url} did not answer: {error}.") from error
            if status == 200:
                return answer
            if status not in _AGAIN or pause is None or last:
                error_ = answer.get("error", {})
                told = error_.get("message", f"The server answered with {status}.")
                raise ServerError(status, error_.get("code", ""), told)
            time.sleep(min(pause, _LONGEST_PAUSE))
        raise AssertionError("unreachable")

    def _send(
        self, path: str, body: dict[str, Any] | None
    ) -> tuple[int, float | None, dict[str, Any]]:
        content = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        self._connection.request(method, f"{self._base}/v1/{path}", content, self._headers)
        response = self._connection.getresponse()
        text = response.read()
        later = response.headers.get("Retry-After")
        pause = float(later) if later is not None and later.isdigit() else None
        try:
            return response.status, pause, json.loads(text)
        except ValueError:
            return response.status, pause, {}
