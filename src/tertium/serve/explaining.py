"""Explanations of the library, as the server gives them: in parts, and with a shorter search."""

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

_PART = 2048  # characters that are scored before others have their turn
_MOST = 2  # words that the smallest change may take, and
_CANDIDATES = 8  # words among which both are looked for: all pairs of them are scored

Item = tuple[str, ...]
Make = Callable[[Callable[[], None]], Any]  # given what it calls between two parts of its work


def explains(model: Any) -> bool:
    """Whether the model can say which words made a score."""
    return callable(getattr(model, "explain", None))


def scorings(words: int) -> int:
    """How often an explanation of texts with so many words scores them, at most."""
    return 2 + words + _CANDIDATES * (_CANDIDATES - 1) // 2


class _Abandoned(BaseException):
    """Nobody waits for what is being made."""


class Explaining:
    """An explanation on its way, which runs in a thread of its own and only when resumed.

    Args:
        make: makes the answer.
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
        """Work on until the next pause, or the end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._resumed.release()
        self._paused.acquire()

    def abandon(self) -> None:
        """End it at its pause."""
        if self._thread is not None and not self.finished:
            self._abandoned = True
            self.resume()

    def answer(self) -> Any:
        """What was made, once it is finished; raises what its making raised."""
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
    """Explanations that wait for their turn or are on their way; the cheapest go first.

    Args:
        start: checks a task, says how many tokens it will take, and how it is made.
    """

    def __init__(
        self, start: "Callable[[QueuedRequest], tuple[int, Callable[[Callable[[], None]], Any]]]"
    ) -> None:
        self._start = start
        self._waiting: FairQueue[tuple[QueuedRequest, Explaining]] = FairQueue()
        self._turn: Turn[tuple[QueuedRequest, Explaining]] | None = None

    @property
    def busy(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def admit(self, task: QueuedRequest) -> None:
        """Let a task wait, or refuse it."""
        cost, make = self._start(task)
        self._waiting.add((task, Explaining(make)), client=task.client, cost=cost)

    def current(self) -> QueuedRequest | None:
        """Whose turn it is; those that nobody waits for are ended."""
        while (turn := self._waiting.pop()) is not None:
            task, explaining = turn.item
            if not task.dropped:
                self._turn = turn
                return task
            explaining.abandon()
            self._waiting.finish(turn, used=turn.cost)
        return None

    def resume(self) -> Explaining | None:
        """Work on the current one up to its next pause; returned when it is finished."""
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
    """Which words made the score of two texts, perhaps under a condition.

    Args:
        model: what scored them.
        a: the first text.
        b: the second text.
        on: the condition.
        pause: called between two parts of the work, which it ends by raising.
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
    """The model's scores, of few items at a time; nobody is warned of texts that are cut."""
    found = []
    for part in _parts(items):
        pause()
        found.append(model.score_items(part, truncation=TokenizationStats()))
    return np.concatenate(found)


def _parts(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items in order, as many together as have few characters, and at least one.

    A text that several items share is scored once, and counts once.
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
