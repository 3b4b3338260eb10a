"""Who goes next: clients share the worker fairly, and so do the requests of one client."""

import heapq
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["FairQueue", "TimeShares", "Turn"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Turn(Generic[T]):
    """A place in the queue.

    Attributes:
        item: what waits.
        client: whose it is.
        cost: what all of it is expected to take.
        start: the client's virtual time when it came.
        number: of its arrival.
    """

    item: T
    client: str
    cost: float
    start: float
    number: int


@dataclass
class _Flow(Generic[T]):
    """What one client has waiting."""

    served: float
    clock: float = 0.0
    heap: list[tuple[float, int, Turn[T]]] = field(default_factory=list)


class FairQueue(Generic[T]):
    """Weighted fair queueing on two levels: clients, and the requests of each client.

    An item's tag is the virtual time at which it would be finished if all shared the worker
    equally; the smallest goes first. A small item therefore overtakes large ones that came before
    it, whoever sent them; since virtual time advances with all work done, a large item is overtaken
    only for as long as its fair share takes.
    """

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[T]] = {}
        self._clock = 0.0
        self._numbers = itertools.count()

    def __bool__(self) -> bool:
        return any(flow.heap for flow in self._flows.values())

    def add(self, item: T, *, client: str, cost: float) -> None:
        """Let an item wait."""
        flow = self._flows.setdefault(client, _Flow(self._clock))
        self.put_back(Turn(item, client, cost, flow.clock, next(self._numbers)))

    def pop(self) -> Turn[T] | None:
        """Take the item whose turn it is; :meth:`put_back` or :meth:`finish` must follow."""
        flows = [flow for flow in self._flows.values() if flow.heap]
        if not flows:
            return None
        chosen = min(flows, key=lambda flow: flow.served + flow.heap[0][2].cost)
        return heapq.heappop(chosen.heap)[2]

    def put_back(self, turn: Turn[T]) -> None:
        """Let an item keep its place, with work left to do."""
        entry = (turn.start + turn.cost, turn.number, turn)
        heapq.heappush(self._flows[turn.client].heap, entry)

    def finish(self, turn: Turn[T], *, used: float) -> None:
        """Count what an item took; it does not come back."""
        flow = self._flows[turn.client]
        self._clock += used / len(self._flows)
        flow.served += used
        flow.clock += used / (len(flow.heap) + 1)
        if not flow.heap:
            del self._flows[turn.client]


class TimeShares(Generic[K]):
    """Equal shares of time for whoever has work; nobody saves up time while idle."""

    def __init__(self) -> None:
        self._spent: dict[K, float] = {}
        self._clock = 0.0

    def next(self, busy: Sequence[K]) -> K | None:
        """Whoever of these has had least."""
        if not busy:
            return None
        chosen = min(busy, key=self._start)
        self._clock = self._start(chosen)
        return chosen

    def charge(self, who: K, seconds: float) -> None:
        """Count what it took, once its turn is over."""
        self._spent[who] = self._start(who) + seconds

    def _start(self, who: K) -> float:
        return max(self._spent.get(who, 0.0), self._clock)
