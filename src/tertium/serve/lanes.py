"""What waits for a model, and which of it runs together next."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tertium.serve.reading import Item, Matrix, Reader

__all__ = ["Lane", "Refusal", "Slice", "Task"]


class Refusal(Exception):
    """A request that cannot be answered, and what the client is told."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(eq=False)
class Task:
    """A request on its way.

    Attributes:
        head: as the server sent it.
        contents: texts or triples.
        items: the same, read.
        rows: results, as far as they are there.
        done: how many items have theirs.
        dropped: nobody waits for it any more.
    """

    head: dict[str, Any]
    contents: Sequence[Any]
    items: list[Item] = field(default_factory=list)
    rows: Matrix | None = None
    done: int = 0
    dropped: bool = False

    @property
    def id(self) -> int:
        """By which the server knows it."""
        return int(self.head["id"])

    @property
    def alone(self) -> bool:
        """Whether it must not share a batch, since a worker died under it."""
        return bool(self.head.get("alone"))

    @property
    def finished(self) -> bool:
        """Whether every item has its row."""
        return self.done == len(self.items)

    def store(self, part: "Slice", rows: Matrix) -> None:
        """Keep the rows of some items."""
        if self.rows is None:
            self.rows = np.empty((len(self.items), *rows.shape[1:]), np.float32)
        self.rows[part.start : part.end] = rows
        self.done = part.end


@dataclass(frozen=True)
class Slice:
    """Consecutive items of a task."""

    task: Task
    start: int
    end: int

    @property
    def items(self) -> list[Item]:
        """Those items."""
        return self.task.items[self.start : self.end]


class Lane:
    """Tasks for one model. A long one is run in parts, and others take turns with it.

    Args:
        reader: reads and runs.
        budget: tokens that are run together; a longer item runs by itself.
        most: tokens of one task.
    """

    def __init__(self, reader: Reader, *, budget: int, most: int) -> None:
        self._reader = reader
        self._budget = budget
        self._most = most
        self._waiting: deque[Task] = deque()

    @property
    def busy(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def admit(self, tasks: Sequence[Task], refuse: Callable[[Task, Exception], None]) -> None:
        """Read new tasks, all of them in one call, and let them wait for their turn."""
        contents = [content for task in tasks for content in task.contents]
        try:
            items = iter(self._reader.read(contents))
        except Exception as error:  # whose text it was shows when each is read by itself
            if len(tasks) == 1:
                return refuse(tasks[0], error)
            for task in tasks:
                self.admit([task], refuse)
            return None
        for task in tasks:
            task.items = [next(items) for _ in task.contents]
            try:
                self._check(task.items)
            except Refusal as refusal:
                refuse(task, refusal)
            else:
                self._waiting.append(task)
        return None

    def measure(self, contents: Sequence[Any]) -> None:
        """Refuse what has more tokens than one task may have."""
        self._check(self._reader.read(contents))

    def gather(self) -> list[Slice]:
        """What runs next: as many items as fit, in turn, and at least one."""
        found: list[Slice] = []
        left = self._budget
        while self._waiting:
            task = self._waiting[0]
            if task.dropped:
                self._waiting.popleft()
                continue
            if found and (task.alone or found[0].task.alone):
                break
            end = _fit(task.items, task.done, left, at_least=0 if found else 1)
            if end == task.done:
                break
            part = Slice(task, task.done, end)
            found.append(part)
            left -= sum(item.tokens for item in part.items)
            self._waiting.popleft()
            if end < len(task.items):
                self._waiting.append(task)  # the others first
                break
        return found

    def run(self, parts: Sequence[Slice]) -> None:
        """Give every item of the parts its row; the same text is run once."""
        places: dict[Any, int] = {}
        chosen: list[Item] = []
        at: list[int] = []
        for item in (item for part in parts for item in part.items):
            place = places.setdefault(item.key, len(places))
            if place == len(chosen):
                chosen.append(item)
            at.append(place)
        rows = self._reader.run(chosen)
        if not np.isfinite(rows).all():
            raise Refusal(500, "not_finite", "The model gives a number that is not finite.")
        rows, start = rows[at], 0
        for part in parts:
            part.task.store(part, rows[start : start + part.end - part.start])
            start += part.end - part.start

    def _check(self, items: Sequence[Item]) -> None:
        tokens = sum(item.tokens for item in items)
        if tokens > self._most:
            message = f"{tokens:,} tokens are more than the {self._most:,} of one request."
            raise Refusal(413, "too_many_tokens", f"{message} Send fewer texts, or shorter ones.")


def _fit(items: Sequence[Item], start: int, budget: int, *, at_least: int) -> int:
    """Where items from ``start`` on exceed the budget."""
    end, used = start, 0
    for item in items[start:]:
        used += item.tokens
        if used > budget and end - start >= at_least:
            break
        end += 1
    return end
