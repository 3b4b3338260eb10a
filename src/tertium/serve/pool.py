"""The workers together: requests go to the least busy, and survive the death of any of them."""

import asyncio
import itertools
import logging
import math
import time
from functools import partial
from typing import Any

from tertium.errors import TertiumError
from tertium.serve.birth import spawn
from tertium.serve.member import Launch, Member, Pending
from tertium.serve.metrics import Metrics
from tertium.serve.problems import Problem
from tertium.serve.spec import Spec, short_name

__all__ = ["Pool"]

_LOG = logging.getLogger("tertium.serve")
_LONGEST_PAUSE = 10.0  # seconds between two attempts to start a worker that dies at once
_SOUND = 60.0  # seconds after which a worker's death is no longer a failed start
_BEATS = 5  # signs of life that are asked for in the time after which silence is a fault
_IMPORTS = 300.0  # seconds that a worker may be silent at first: it cannot speak while it imports


class Pool:
    """A fixed number of workers; one that ends is replaced.

    What a dead worker had not begun goes to another as if nothing had happened. What it was
    working on is tried once more, each request alone; the one that kills a second worker is
    answered with 503. A worker that is silent, or does not come to the end of a batch, is killed.

    Args:
        spec: what a worker serves.
        count: how many workers.
        metrics: told of batches and deaths.
        launch: starts a worker.
        silence: seconds after which a worker that gives no sign of life is killed.
        batch: seconds after which one that is still at the same batch is.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        count: int,
        metrics: Metrics,
        launch: Launch = spawn,
        silence: float = 10.0,
        batch: float = 120.0,
    ) -> None:
        self._silence = silence
        self._batch = batch
        self._index_fault: str | None = None
        self._spec = spec
        self._count = count
        self._metrics = metrics
        self._launch = launch
        self._members: list[Member] = []
        self._homeless: list[Pending] = []
        self._numbers = itertools.count(1)
        self._keepers: list[asyncio.Task[None]] = []
        self._first: asyncio.Future[dict[str, Any]] | None = None
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Whether any worker can answer."""
        return any(member.able for member in self._members)

    @property
    def index(self) -> dict[str, Any] | None:
        """What can be searched now."""
        return next((each.index for each in self._members if each.able and each.index), None)

    async def start(self) -> dict[str, Any]:
        """Start all workers, wait for the first, and tell what it serves."""
        self._first = asyncio.get_running_loop().create_future()
        self._keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]
        return await self._first

    async def stop(self) -> None:
        """End all workers."""
        self._stopping = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(member.stop() for member in self._members))

    def ask(self, head: dict[str, Any]) -> Pending:
        """Send a request to a worker; the answer comes to its future."""
        numbered = {**head, "id": next(self._numbers)}
        pending = Pending(numbered, asyncio.get_running_loop().create_future())
        self._place(pending)
        return pending

    def drop(self, pending: Pending) -> None:
        """Forget a request, wherever it is."""
        for member in self._members:
            member.drop(pending.id)
        if pending in self._homeless:
            self._homeless.remove(pending)

    def _place(self, pending: Pending) -> None:
        able = [member for member in self._members if member.able]
        if pending.head["kind"] == "search":
            able = [member for member in able if member.index is not None] or able
        if able:
            min(able, key=lambda member: len(member.pending)).ask(pending)
        else:
            self._homeless.append(pending)

    async def _keep(self) -> None:
        """Keep one worker alive."""
        pause = 0.0
        while True:
            born = time.monotonic()
            try:
                member = await Member.start(self._spec, self._launch)
            except OSError as error:
                self._turned_down(f"A worker could not be started: {error.strerror}.")
            else:
                await self._attend(member, born)
            sound = time.monotonic() - born > _SOUND
            pause = 0.0 if sound else min(2 * pause + 0.5, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _attend(self, member: Member, born: float) -> None:
        """Hear a worker, and watch it, until it ends."""
        self._members.append(member)
        watching = asyncio.create_task(self._watch(member))
        try:
            await member.listen(partial(self._heard, born=born))
        finally:
            watching.cancel()
        self._bury(member)
        await member.stop()

    async def _watch(self, member: Member) -> None:
        """Kill a worker that is silent for too long, or too long at one batch.

        Beats are counted, not seconds: if this process itself is held up, nobody is blamed.
        """
        beat = self._silence / _BEATS
        at_first = max(math.ceil(_IMPORTS / beat), _BEATS)
        spoken = False
        while True:
            member.ping()
            await asyncio.sleep(beat)
            member.beat()
            self._count_ready()
            spoken = spoken or member.heard
            if member.missed >= (_BEATS if spoken else at_first):
                reason = f"was silent for {member.missed * beat:g} s"
            elif member.busy > self._batch:
                reason = f"has been at one batch for {member.busy:.0f} s"
            else:
                continue
            _LOG.error("a worker %s and is killed (process %s)", reason, member.process)
            member.handle.kill()
            return

    def _bury(self, member: Member) -> None:
        self._members.remove(member)
        self._count_ready()
        if member.ready:
            self._metrics.restarts.inc()
            _LOG.error("a worker died; another one is started")
        else:
            self._turned_down("A worker ended while it loaded the models: is there memory enough?")
        for pending in list(member.pending.values()):
            if pending.answer.done():
                continue
            if pending.started and pending.head.get("alone"):
                message = "This request ended two workers and is not tried again."
                pending.answer.set_exception(Problem(503, "worker_died", message))
                continue
            if pending.started:
                pending.head["alone"] = True
                pending.started = False
            self._place(pending)

    def _heard(
        self, member: Member, head: dict[str, Any], body: bytes, *, born: float = 0.0
    ) -> None:
        kind = head.pop("kind")
        if kind == "pong":
            member.missed, member.busy = 0, head["busy"]
            self._find_homes()
        elif kind == "started":
            for number, pending in member.pending.items():
                pending.started = number in head["ids"]
        elif kind == "index":
            self._learn_index(member, head)
        elif kind == "batch":
            self._metrics.batch(**head)
        elif kind == "ready":
            seconds = time.monotonic() - born
            _LOG.info("a worker is ready after %.1f s (process %s)", seconds, member.process)
            self._welcome(member, head)
        elif kind == "refused":
            self._turned_down(head["message"])
        elif (asked := member.pending.pop(head.pop("id"), None)) is not None:
            if asked.answer.done():
                return
            if kind == "failed":
                asked.answer.set_exception(Problem(**head))
            else:
                asked.answer.set_result((head, body))

    def _welcome(self, member: Member, about: dict[str, Any]) -> None:
        member.ready = True
        self._learn_index(member, about)
        self._count_ready()
        self._find_homes()
        if self._first is not None and not self._first.done():
            self._first.set_result(about)

    def _find_homes(self) -> None:
        """Requests that waited for any worker at all go to one."""
        waiting, self._homeless = self._homeless, []
        for pending in waiting:
            self._place(pending)

    def _learn_index(self, member: Member, told: dict[str, Any]) -> None:
        """Remember what a worker can search; the log gets one line when that changes."""
        index, fault = told["index"], told["fault"]
        member.index = None if index is None else {**index, "name": short_name(index["name"])}
        if fault == self._index_fault:
            return
        self._index_fault = fault
        if fault is None:
            _LOG.info("the index is searched again")
        else:
            _LOG.error("search is off until the index is whole again: %s", fault)

    def _turned_down(self, message: str) -> None:
        if self._first is not None and not self._first.done():
            self._first.set_exception(TertiumError(message))
        else:
            _LOG.error("a worker could not start: %s", message)

    def _count_ready(self) -> None:
        self._metrics.ready.set(sum(member.able for member in self._members))
