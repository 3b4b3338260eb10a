"""A thin client for ``tertium serve``: vectors and scores without a local model or torch.

>>> from tertium.client import Client
>>> client = Client("http://127.0.0.1:8080")                            # doctest: +SKIP
>>> client.similarity([("A cat sleeps.", "A kitten is napping.")])      # doctest: +SKIP
"""

import base64
import http.client
import itertools
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.records.decision import VERDICT, Verdict
from tertium.types import Hit

__all__ = ["Client", "DecidedHit", "Hit", "Scores", "ServerError", "Verdict"]

_RETRYABLE = {429, 503}
_LONGEST_PAUSE = 30.0


class ServerError(TertiumError):
    """The server answered with an error.

    Attributes:
        status: HTTP status of the response.
        code: the server's error code, such as ``queue_full``.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Scores:
    """Scores in the order of the request, and the ends of their scale.

    Attributes:
        values: the scores.
        scale: lowest and highest score.
        model: what the server calls the model.
        verdicts: the decisions of a model from ``tertium fit``; else None.
        decision: its threshold and where it comes from, as the server sends it; else None.
    """

    values: NDArray[np.float32]
    scale: tuple[float, float]
    model: str
    verdicts: tuple[Verdict, ...] | None = None
    decision: dict[str, Any] | None = None


@dataclass(frozen=True)
class DecidedHit(Hit):
    """A hit with the decision on its cosine.

    Attributes:
        verdict: None if the index's model has none, or the hit was found only by its words.
    """

    verdict: Verdict | None = None


class Client:
    """Sends requests over one connection that stays open. Not thread-safe.

    Args:
        url: the server's address.
        key: an API key, if the server requires one.
        timeout: seconds to wait for an answer.
        retries: how often to retry when the queue is full or the connection was closed.
        batch: texts, pairs or triples per request.
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
            raise TertiumError(f"'{url}' is not an HTTP address such as http://127.0.0.1:8080.")
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
        """Close the connection; the next call opens a new one."""
        self._connection.close()

    def embed(
        self, texts: Iterable[str], *, dimensions: int | None = None, model: str | None = None
    ) -> NDArray[np.float32]:
        """One unit-length vector per text; name a ``model`` if the server has several."""
        rows: list[NDArray[np.float32]] = []
        for part in self._parts(texts):
            body = {"input": part, "encoding_format": "base64", "dimensions": dimensions}
            found = self._ask("embeddings", {**body, "model": model})
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
        """Which words account for a score, in the form that ``tertium explain --json`` prints."""
        return self._ask("explain", {"a": a, "b": b, "on": on, "model": model})

    def search(
        self,
        queries: Sequence[str],
        *,
        top_k: int = 10,
        threshold: float | None = None,
        where: str | None = None,
        hybrid: bool = False,
        rerank: str | None = None,
        on: str | None = None,
    ) -> list[list[DecidedHit]]:
        """The nearest texts in the server's index, for each query.

        Options are those of ``tertium.Index.search_many``; ``rerank`` names a served model.
        """
        found: list[list[DecidedHit]] = []
        for part in self._parts(queries):
            body = {"query": part, "top_k": top_k, "threshold": threshold, "where": where}
            body |= {"hybrid": hybrid, "rerank": rerank, "on": on}
            answer = self._ask("search", body)
            about = answer["decision"]
            found += [[_hit(hit, about) for hit in hits] for hits in answer["results"]]
        return found

    def models(self) -> list[dict[str, Any]]:
        """The models that the server offers."""
        return cast(list[dict[str, Any]], self._ask("models", None)["data"])

    def _scores(
        self, path: str, field: str, items: Iterable[Sequence[str]], model: str | None
    ) -> Scores:
        values: list[float] = []
        verdicts: list[Verdict] = []
        answer: dict[str, Any] = {}
        for part in self._parts(items):
            answer = self._ask(path, {field: part, "model": model})
            values += answer["scores"]
            verdicts += [_verdict(said, answer["decision"]) for said in answer["decisions"] or ()]
        if not values:
            raise TertiumError(f"There are no {field} to score.")
        scale = (answer["scale"][0], answer["scale"][1])
        decided = tuple(verdicts) if verdicts else None
        found = np.array(values, np.float32)
        return Scores(found, scale, answer["model"], decided, answer["decision"])

    def _parts(self, items: Iterable[Any]) -> Iterable[list[Any]]:
        rest = iter(items)
        while part := list(itertools.islice(rest, self._batch)):
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
            if status not in _RETRYABLE or pause is None or last:
                problem = answer.get("error", {})
                message = problem.get("message", f"The server answered with status {status}.")
                raise ServerError(status, problem.get("code", ""), message)
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


def _verdict(said: dict[str, Any], about: dict[str, Any]) -> Verdict:
    answer, probability, grade = (said[key] for key in VERDICT)
    accepted = None if answer is None else answer == "yes"
    return Verdict(about["name"], accepted, probability, grade)


def _hit(found: dict[str, Any], about: dict[str, Any] | None) -> DecidedHit:
    """A hit of an answer, which may have more fields."""
    known = {field.name: found[field.name] for field in fields(Hit) if field.name in found}
    if about is None or found["cosine"] is None:
        return DecidedHit(**known)
    return DecidedHit(**known, verdict=_verdict(found, about))
