"""Explanations in the server: computed in parts, with a smaller search."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tertium.explain import explain_score
from tertium.models.base import Model
from tertium.models.tokens import TokenizationStats
from tertium.serve.batching import FairQueue, QueuedRequest, Turn
from tertium.serve.settings import short_name

__all__ = ["Explaining", "Explanations", "explain", "explains", "scorings"]

_PART = 2048  # characters scored before other requests get a turn
_MOST = 2  # maximum words of the smallest change
_CANDIDATES = 8  # words it is chosen from: all pairs of them are scored

Item = tuple[str, ...]
Make = Callable[[Callable[[], None]], Any]  # takes a function to call between parts of the work


def explains(model: Any) -> bool:
    """Whether the model can explain its scores."""
    return callable(getattr(model, "explain", None))


def scorings(words: int) -> int:
    """Maximum number of scorings for an explanation of texts with this many words."""
    return 2 + words + _CANDIDATES * (_CANDIDATES - 1) // 2


class _Abandoned(BaseException):
    """Nobody is waiting for the explanation any more."""


class Explaining:
    """An explanation in progress, which runs in its own thread and only when resumed.

    Args:
        make: computes the answer.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._resumed = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self.finished = False

    def resume(self) -> None:
        """Continue until the next pause, or the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._resumed.release()
        self._paused.acquire()

    def abandon(self) -> None:
        """Stop it at its pause."""
        if self._thread is not None and not self.finished:
            self._abandoned = True
            self.resume()

    def answer(self) -> Any:
        """The result, once finished; raises if computing it raised."""
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._pause(first=True)
            self._answer = self._make(self._pause)
        except BaseException as error:
            self._error = error
        self.finished = True
        self._paused.release()

    def _pause(self, *, first: bool = False) -> None:
        if not first:
            self._paused.release()
        self._resumed.acquire()
        if self._abandoned:
            raise _Abandoned


class Explanations:
    """Explanations that are waiting or in progress; the cheapest go first.

    Args:
        start: checks a request, and returns its cost in tokens and how to compute it.
    """

    def __init__(self, start: Callable[[QueuedRequest], tuple[int, Make]]) -> None:
        self._start = start
        self._waiting: FairQueue[tuple[QueuedRequest, Explaining]] = FairQueue()
        self._turn: Turn[tuple[QueuedRequest, Explaining]] | None = None

    @property
    def busy(self) -> bool:
        """Whether anything is waiting."""
        return bool(self._waiting)

    def admit(self, task: QueuedRequest) -> None:
        """Enqueue a request; raises if it is refused."""
        cost, make = self._start(task)
        self._waiting.add((task, Explaining(make)), client=task.client, cost=cost)

    def current(self) -> QueuedRequest | None:
        """The next request; those that nobody is waiting for are abandoned."""
        while (turn := self._waiting.pop()) is not None:
            task, explaining = turn.item
            if not task.dropped:
                self._turn = turn
                return task
            explaining.abandon()
            self._waiting.finish(turn, used=turn.cost)
        return None

    def resume(self) -> Explaining | None:
        """Continue the current one until its next pause; returned once it is finished."""
        assert self._turn is not None
        turn, self._turn = self._turn, None
        explaining = turn.item[1]
        explaining.resume()
        if not explaining.finished:
            self._waiting.put_back(turn)
            return None
        self._waiting.finish(turn, used=turn.cost)
        return explaining


def explain(
    model: Any, a: str, b: str, on: str | None, *, pause: Callable[[], None]
) -> dict[str, Any]:
    """Explain the score of two texts, optionally under a condition.

    ``pause`` is called between parts of the work; it may raise to abandon it.
    """
    found = explain_score(
        model,
        a,
        b,
        condition=on,
        most=_MOST,
        candidates=_CANDIDATES,
        score=lambda items: _score_in_parts(model, items, pause),
        pause=pause,
    )
    made = found.to_json()
    notes = [note.replace(model.name, short_name(model.name)) for note in made["notes"]]
    return {**made, "notes": notes}


def _score_in_parts(model: Model, items: Sequence[Item], pause: Callable[[], None]) -> np.ndarray:
    """The model's scores, computed in parts and without warnings about truncated texts."""
    found = []
    for part in _parts(items):
        pause()
        found.append(model.score_items(part, truncation=TokenizationStats()))
    return np.concatenate(found)


def _parts(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Split items into parts of few characters, with at least one item each.

    A text that several items share is scored once and counts once.
    """
    part: list[Item] = []
    texts: set[str] = set()
    for item in items:
        more = texts | set(item)
        if part and sum(map(len, more)) > _PART:
            yield part
            part, more = [], set(item)
        part.append(item)
        texts = more
    if part:
        yield part
