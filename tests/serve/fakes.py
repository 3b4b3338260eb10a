"""Models for a server that need no weights, and a worker that is a thread."""

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tertium.serve.birth import run_worker
from tertium.serve.spec import Spec
from tertium.serve.worker import Worker
from tests.fakes import HashEncoder

LOADER = "tests.serve.fakes:load"


class Reasons:
    """An explanation in the shape of the library's: every word has the same share."""

    def __init__(self, model: str, texts: tuple[str, str], condition: str | None) -> None:
        self._head = {"model": model, "condition": condition, "score": 0.5, "scale": [-1.0, 1.0]}
        self._texts = texts

    def to_json(self) -> dict[str, Any]:
        sides = [
            {
                "text": text,
                "words": [
                    {"word": word, "occlusion": round(0.5 - 0.3 * at, 2), "gradients": None}
                    for at, word in enumerate(text.split())
                ],
            }
            for text in self._texts
        ]
        a, b = (text.split() for text in self._texts)
        alignment = [[1.0 if x == y else 0.2 for y in b] for x in a]
        change = {"by": 0.2, "reached": True, "score": 0.2, "removed": []}
        if a:
            change["removed"] = [{"text": 0, "place": 0, "word": a[0]}]
        rest = {"method": "occlusion", "smallest_change": change, "attention": None, "notes": []}
        return {**self._head, "unclipped": 0.5, "texts": sides, "alignment": alignment, **rest}


class FakeModel(HashEncoder):
    """Vectors from hashes. Some texts are special: they take time, fail, or kill the process."""

    def __init__(self, name: str, *, pause: float = 0.0) -> None:
        super().__init__(name)
        self.pause = pause
        self.batches: list[int] = []

    def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
        self.batches.append(len(texts))
        for text in texts:
            if text == "die":
                os._exit(3)
            if text == "fail":
                raise RuntimeError(f"cannot read {text!r}")
            if text.startswith("sleep "):
                time.sleep(float(text.split()[1]))
        time.sleep(self.pause)
        return super().encode(texts, **options)

    def score_vectors(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        return np.asarray((first * second).sum(1) / lengths, np.float32)

    def explain(self, a: str, b: str, *, condition: str | None = None) -> Reasons:
        return Reasons(self.name, (a, b), condition)


class FakeConditional:
    """Scores from 1 to 5 by the length of the condition."""

    name = "respects"
    scale = (1.0, 5.0)

    def score(self, triples: Iterable[tuple[str, str, str]], **options: Any) -> np.ndarray:
        return np.array([1 + len(condition) % 5 for *_, condition in triples], np.float32)


def load(name: str, **options: Any) -> Any:
    """A model by its name: ``slow:0.2`` takes 0.2 s for a batch."""
    if name == "respects":
        return FakeConditional()
    word, _, pause = name.partition(":")
    model = FakeModel(word, pause=float(pause or 0))
    if word == "mute":
        model.explain = None  # type: ignore[assignment, method-assign]
    return model


def launch_fork(spec: Spec, connection: socket.socket) -> Any:
    """A worker that may be killed, and has all imports already."""
    process = multiprocessing.get_context("fork").Process(
        target=run_worker, args=(connection, spec), daemon=True
    )
    process.start()
    connection.close()
    return process


class _Thread:
    def __init__(self, thread: threading.Thread, connection: socket.socket) -> None:
        self._thread = thread
        self._connection = connection

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def kill(self) -> None:
        self._connection.close()


def launch_thread(spec: Spec, connection: socket.socket) -> _Thread:
    """A worker without a process: quick, and in the same debugger."""

    def live() -> None:
        with connection:
            Worker(connection, spec, orphaned=lambda: None).run()

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    return _Thread(thread, connection)
