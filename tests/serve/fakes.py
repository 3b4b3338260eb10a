"""Models for a server that need no weights, and a worker that is a thread."""

import contextlib
import multiprocessing
import os
import socket
import stat
import threading
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tertium.errors import TertiumError
from tertium.explain import reading
from tertium.explain.reading import Reading
from tertium.explain.words import split_words
from tertium.models.base import TripleScorer
from tertium.models.tokens import padded
from tertium.records.decision import Calibration, Decision, DecisionSource, Rule
from tertium.serve.pool import run_worker
from tertium.serve.protocol import Spec
from tertium.serve.worker import Worker
from tests.fakes import HashEncoder

LOADER = "tests.serve.fakes:load"


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

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: Any = None
    ) -> np.ndarray:
        """As explanations ask: 0.5 for texts with the same first word, else 0.2."""
        time.sleep(self.pause)
        first = [[text.split()[:1] for text in item] for item in items]
        return np.array([0.5 if a == b else 0.2 for a, b in first])

    def read(self, item: tuple[str, ...]) -> list[Reading]:
        """Every word is a token; the cosine of two words is 0.2."""
        words = [[word.text for word in split_words(text)] for text in item]
        numbers = {word: at for at, word in enumerate(dict.fromkeys(chain(*words)), 1)}
        rows = [[numbers[word] for word in own] for own in words]
        ids, real = padded(rows, padding=0)
        places = tuple(
            tuple((text, at) if at < len(own) else None for at in range(ids.shape[1]))
            for text, own in enumerate(words)
        )
        states = 0.8**0.5 * np.eye(len(numbers) + 1)[ids]
        states[..., 0] = 0.2**0.5
        return [Reading(self, ids, real.astype(int), places, 1.0, lambda: states)]


_read_item = reading.read_item


def read_item(model: Any, item: tuple[str, ...]) -> list[Reading]:
    """As the library's, and those of the fake."""
    return model.read(item) if isinstance(model, FakeModel) else _read_item(model, item)


reading.read_item = read_item


class FakeConditional(TripleScorer):
    """Scores from 1 to 5 by the length of the condition, and cannot say why."""

    name = "respects"
    scale = (1.0, 5.0)
    explain: Any = None

    def grade(self, triples: list[tuple[str, str, str]], **options: Any) -> np.ndarray:
        return np.array([1 + len(condition) % 5 for *_, condition in triples], np.float32)

    def save(self, folder: Any) -> None:
        raise NotImplementedError


class FakeReasons(FakeConditional):
    """The same, and it can be asked why."""

    name = "reasons"
    explain = TripleScorer.explain


def load(name: str, **options: Any) -> Any:
    """A model by its name: ``slow:0.2`` takes 0.2 s for a batch, ``late:0.2`` to be loaded."""
    if name == "respects":
        return FakeConditional()
    if name == "reasons":
        return FakeReasons()
    word, _, pause = name.partition(":")
    if word == "deadly":
        os._exit(3)
    if word == "broken":
        raise TertiumError("/secret/weights are damaged.")
    if word == "late":
        time.sleep(float(pause))
        return FakeModel(word)
    model = FakeModel(word, pause=float(pause or 0))
    if word == "deciding":
        source = DecisionSource(file="pairs.tsv", sha256="", pairs=200)
        sure = Calibration(method="platt", low=0, high=1, slope=4.0)
        rule = Rule(threshold=0.9, probability=sure)
        model.decision = Decision(name="duplicate", goal="f1", by={"score": rule}, source=source)
    if word == "mute":
        model.explain = None  # type: ignore[assignment, method-assign]
    return model


def launch_fork(spec: Spec, connection: socket.socket) -> Any:
    """A worker that may be killed, and has all imports already."""
    process = multiprocessing.get_context("fork").Process(
        target=_run_alone, args=(connection, spec), daemon=True
    )
    process.start()
    connection.close()
    return process


def _run_alone(connection: socket.socket, spec: Spec) -> None:
    """Without copies of the server's sockets: with them it would not notice their end."""
    for number in (int(entry.name) for entry in Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):
            if number != connection.fileno() and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.close(number)
    run_worker(connection, spec)


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
