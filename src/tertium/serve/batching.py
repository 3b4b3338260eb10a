"""Fair queueing of requests, and dynamic batches of what waits for a model."""

import heapq
import itertools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tertium.models.passages import Alignment
from tertium.models.tokens import unique
from tertium.serve.errors import APIError

__all__ = [
    "BatchQueue",
    "FairQueue",
    "Matrix",
    "QueuedRequest",
    "Reader",
    "Slice",
    "TimeShares",
    "Tokenized",
    "Turn",
]

_READ_TOGETHER = 32_768  # characters tokenized before the next batch: about 20 ms
_PER_TOKEN = 4  # characters per token, roughly
_BATCH_SECONDS = 0.25  # target duration of a batch, once the model's speed is known
_AT_FIRST = 1024  # tokens per batch before the speed is known
_LEAST_TOGETHER = 256  # minimum tokens per batch, however slow the model is

Matrix = NDArray[np.float32]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Turn(Generic[T]):
    """A place in the queue.

    Attributes:
        item: the waiting item.
        client: who sent it.
        cost: its expected total cost.
        start: the client's virtual time at its arrival.
        number: order of arrival.
    """

    item: T
    client: str
    cost: float
    start: float
    number: int


@dataclass
class _Flow(Generic[T]):
    """The waiting items of one client."""

    served: float
    clock: float = 0.0
    heap: list[tuple[float, int, Turn[T]]] = field(default_factory=list)


class FairQueue(Generic[T]):
    """Weighted fair queueing on two levels: clients, and the requests of each client.

    An item's tag is the virtual time at which it would be finished if all shared the worker
    equally; the smallest tag goes first. A small item therefore overtakes large ones that came
    before it; since virtual time advances with all work done, a large item is overtaken only for as
    long as its fair share takes.
    """

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[T]] = {}
        self._clock = 0.0
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return any(flow.heap for flow in self._flows.values())

    def add(self, item: T, *, client: str, cost: float) -> None:
        """Enqueue an item."""
        flow = self._flows.setdefault(client, _Flow(self._clock))
        self.put_back(Turn(item, client, cost, flow.clock, next(self._numbers)))

    def pop(self) -> Turn[T] | None:
        """Dequeue the next item; :meth:`put_back` or :meth:`finish` must follow."""
        flows = [flow for flow in self._flows.values() if flow.heap]
        if not flows:
            return None
        chosen = min(flows, key=lambda flow: flow.served + flow.heap[0][2].cost)
        return heapq.heappop(chosen.heap)[2]

    def put_back(self, turn: Turn[T]) -> None:
        """Requeue an item that has work left, in its old place."""
        entry = (turn.start + turn.cost, turn.number, turn)
        heapq.heappush(self._flows[turn.client].heap, entry)

    def finish(self, turn: Turn[T], *, used: float) -> None:
        """Account for the cost of a finished item."""
        flow = self._flows[turn.client]
        self._clock += used / len(self._flows)
        flow.served += used
        flow.clock += used / (len(flow.heap) + 1)
        if not flow.heap:
            del self._flows[turn.client]


class TimeShares(Generic[K]):
    """Equal shares of time for everyone who has work; idle time is not saved up."""

    def __init__(self) -> None:
        self._spent: dict[K, float] = {}
        self._clock = 0.0

    def next(self, busy: Sequence[K]) -> K | None:
        """The one of these that has used the least time."""
        if not busy:
            return None
        chosen = min(busy, key=self._start)
        self._clock = self._start(chosen)
        return chosen

    def charge(self, who: K, seconds: float) -> None:
        """Account for the time of a turn."""
        self._spent[who] = self._start(who) + seconds

    def _start(self, who: K) -> float:
        return max(self._spent.get(who, 0.0), self._clock)


@dataclass(frozen=True)
class Tokenized:
    """A text or triple after tokenization.

    Attributes:
        key: equal for items with the same result.
        tokens: how many the model reads.
        cut: whether it was truncated.
        ids: its token ids, for a model that takes them.
    """

    key: Hashable
    tokens: int
    cut: bool = False
    ids: list[int] | None = None


class Reader(Protocol):
    """Tokenizes contents, and runs the model on them."""

    def size(self, content: Any) -> int:
        """Characters of a text or triple that are tokenized; the rest is cut off beforehand."""
        ...

    def read(self, contents: Sequence[Any]) -> list[Tokenized]:
        """One item per text or triple."""
        ...

    def run(self, items: Sequence[Tokenized]) -> Matrix:
        """One row per item."""
        ...


@dataclass(eq=False)
class QueuedRequest:
    """A request inside a worker.

    Attributes:
        head: the server's message.
        contents: texts or triples.
        items: the contents tokenized so far.
        tokens: tokens of these items.
        rows: results so far.
        done: how many items have a result.
        dropped: nobody is waiting for it any more.
        alignment: how scores of passages become scores of long texts, if there are any.
    """

    head: dict[str, Any]
    contents: Sequence[Any]
    items: list[Tokenized] = field(default_factory=list)
    tokens: int = 0
    rows: Matrix | None = None
    done: int = 0
    dropped: bool = False
    alignment: Alignment | None = None

    @property
    def id(self) -> int:
        """Its number in the server."""
        return int(self.head["id"])

    @property
    def alone(self) -> bool:
        """Whether it must not share a batch, since a worker died while running it."""
        return bool(self.head.get("alone"))

    @property
    def client(self) -> str:
        """Who sent it."""
        return str(self.head.get("client", ""))

    @property
    def read(self) -> bool:
        """Whether all contents are tokenized."""
        return len(self.items) == len(self.contents)

    @property
    def finished(self) -> bool:
        """Whether every item has a result."""
        return self.done == len(self.contents)

    @property
    def counts(self) -> dict[str, int]:
        """Number of tokens and of truncated items, for the answer."""
        return {
            "tokens": sum(item.tokens for item in self.items),
            "cut": sum(item.cut for item in self.items)
            + (0 if self.alignment is None else self.alignment.cut),
        }

    @property
    def used(self) -> int:
        """Tokens run so far."""
        return sum(item.tokens for item in self.items[: self.done])

    def store(self, part: "Slice", rows: Matrix) -> None:
        """Store the results of some items."""
        if self.rows is None:
            self.rows = np.empty((len(self.items), *rows.shape[1:]), np.float32)
        self.rows[part.start : part.end] = rows
        self.done = part.end


@dataclass(frozen=True)
class Slice:
    """Consecutive items of a request."""

    task: QueuedRequest
    start: int
    end: int

    @property
    def items(self) -> list[Tokenized]:
        """The items."""
        return self.task.items[self.start : self.end]


class BatchQueue:
    """Requests for one model. Large ones are tokenized and run in parts, and small ones go first.

    Args:
        reader: tokenizes and runs.
        budget: maximum tokens per batch; a longer item runs by itself.
        most: maximum tokens per request.
    """

    def __init__(self, reader: Reader, *, budget: int, most: int) -> None:
        self._reader = reader
        self._budget = budget
        self._most = most
        self._waiting: FairQueue[QueuedRequest] = FairQueue()
        self._pace: float | None = None  # tokens per second, recently

    @property
    def busy(self) -> bool:
        """Whether anything is waiting."""
        return bool(self._waiting)

    @property
    def budget(self) -> int:
        """Tokens of the next batch: fewer for a slow model."""
        if self._pace is None:
            return min(self._budget, _AT_FIRST)
        return min(self._budget, max(round(self._pace * _BATCH_SECONDS), _LEAST_TOGETHER))

    def ran(self, tokens: int, *, seconds: float) -> None:
        """Update the model's speed from a batch, unless it was too small to tell."""
        if tokens >= min(self._budget, _LEAST_TOGETHER):
            now = tokens / max(seconds, 1e-6)
            self._pace = now if self._pace is None else (self._pace + now) / 2

    def admit(self, task: QueuedRequest) -> None:
        """Enqueue a request; its cost is estimated from its characters."""
        cost = sum(_estimate(self._reader.size(content)) for content in task.contents)
        self._waiting.add(task, client=task.client, cost=min(cost, self._most))

    def check(self, contents: Sequence[Any], *, times: int) -> int:
        """Tokens of contents that run ``times`` times; raises if a request may not have so many."""
        tokens = times * sum(item.tokens for item in self._reader.read(contents))
        self._check(tokens)
        return tokens

    def gather(self, refuse: Callable[[QueuedRequest, Exception], None]) -> list[Slice]:
        """The next batch: as many items as fit, in turn; empty while a large request is tokenized.

        Args:
            refuse: called with a request that cannot be tokenized, or has too many tokens.
        """
        found: list[Slice] = []
        left, characters = self.budget, _READ_TOGETHER
        while (turn := self._waiting.pop()) is not None:
            task = turn.item
            if found and (task.alone or found[0].task.alone):
                self._waiting.put_back(turn)
                break
            if not task.dropped and characters > 0:
                try:
                    characters -= self._read(task, characters)
                except Exception as error:
                    refuse(task, error)
            if task.dropped:
                self._waiting.finish(turn, used=task.used)
                continue
            end = _fit(task.items, task.done, left, at_least=0 if found else 1)
            if not task.read or end == task.done:
                self._waiting.put_back(turn)
                break
            part = Slice(task, task.done, end)
            found.append(part)
            left -= sum(item.tokens for item in part.items)
            if end < len(task.items):
                self._waiting.put_back(turn)
                break
            self._waiting.finish(turn, used=task.tokens)
        return found

    def _read(self, task: QueuedRequest, most: int) -> int:
        """Tokenize up to ``most`` more characters, but at least one text; returns how many."""
        start, size = len(task.items), 0
        contents = itertools.islice(task.contents, start, None)
        sizes = itertools.accumulate(self._reader.size(content) for content in contents)
        end = start
        for size in sizes:
            end += 1
            if size >= most:
                break
        if end > start:
            new = self._reader.read(task.contents[start:end])
            task.items += new
            task.tokens += sum(item.tokens for item in new)
            self._check(task.tokens)
        return size

    def run(self, parts: Sequence[Slice]) -> None:
        """Compute the results of all items; equal texts run once."""
        items = [item for part in parts for item in part.items]
        keys, at = unique(item.key for item in items)
        known = {item.key: item for item in reversed(items)}
        rows = self._reader.run([known[key] for key in keys])
        if not np.isfinite(rows).all():
            raise APIError(500, "not_finite", "The model returned a number that is not finite.")
        rows, start = rows[at], 0
        for part in parts:
            part.task.store(part, rows[start : start + part.end - part.start])
            start += part.end - part.start

    def _check(self, tokens: int) -> None:
        if tokens > self._most:
            message = f"The request has {tokens:,} or more tokens; the limit is {self._most:,}."
            raise APIError(413, "too_many_tokens", f"{message} Send fewer or shorter texts.")


def _estimate(characters: int) -> float:
    """Estimated tokens of a text."""
    return characters / _PER_TOKEN + 2


def _fit(items: Sequence[Tokenized], start: int, budget: int, *, at_least: int) -> int:
    """The end of the items from ``start`` that fit into the budget."""
    end, used = start, 0
    for item in items[start:]:
        used += item.tokens
        if used > budget and end - start >= at_least:
            break
        end += 1
    return end
