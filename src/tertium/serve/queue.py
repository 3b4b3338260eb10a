"""How many requests may wait, and when the next one should come back."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator

from tertium.serve.metrics import Metrics
from tertium.serve.problems import Problem

__all__ = ["Queue"]

_RECENT = 64  # answers by which the pace is judged
_LONGEST = 60  # seconds; nobody is told to wait longer


class Queue:
    """Places for requests that are accepted and not yet answered.

    Args:
        requests: how many there are.
        size: bytes that their bodies may have together.
        metrics: told of both.
    """

    def __init__(self, *, requests: int, size: int, metrics: Metrics) -> None:
        self._requests = requests
        self._size = size
        self._metrics = metrics
        self._left: deque[float] = deque(maxlen=_RECENT)
        self._held_bytes = 0
        self.held = 0
        self.accepted = 0
        self.answered = 0

    @contextlib.contextmanager
    def place(self, size: int) -> Iterator[None]:
        """Hold a place, or raise the problem that says when to come back."""
        if self.held >= self._requests or self._held_bytes + size > self._size:
            self._metrics.refused.labels("queue_full").inc()
            seconds = self.pause()
            raise Problem(
                429,
                "queue_full",
                f"Too many requests wait for an answer; try again in {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )
        self.accepted += 1
        self._hold(1, size)
        try:
            yield
        finally:
            self._hold(-1, -size)
            self.answered += 1
            self._left.append(time.monotonic())

    def pause(self) -> int:
        """Seconds until half of what waits should be answered, at the pace of late."""
        if len(self._left) < 2:
            return 1
        pace = len(self._left) / max(time.monotonic() - self._left[0], 1e-3)
        return min(max(math.ceil(self.held / 2 / pace), 1), _LONGEST)

    def _hold(self, requests: int, size: int) -> None:
        self.held += requests
        self._held_bytes += size
        self._metrics.queued.set(self.held)
        self._metrics.queued_bytes.set(self._held_bytes)
