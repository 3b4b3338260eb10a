"""Models for a server that need no weights, and a worker that is a thread."""

import os
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tertium.serve.spec import Spec
from tertium.serve.worker import Worker
from tests.fakes import HashEncoder

LOADER = "tests.serve.fakes:load"


@dataclass(frozen=True)
class Reasons:
    """An explanation that names words."""

    score: float
    scale: tuple[float, float]
    words: tuple[tuple[str, ...], ...]
    occlusion: tuple[tuple[float, ...], ...]
    alignment: np.ndarray


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

    def explain(self, a: str, b: str, *, on: str | None = None) -> Reasons:
        words = (tuple(a.split()), tuple(b.split()))
        shares = tuple(tuple(1 / len(side) for _ in side) for side in words)
        return Reasons(
            0.5, self.scale, words, shares, np.full((len(words[0]), len(words[1])), 0.25)
        )


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
        delattr(model, "explain")
    return model


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
