"""Shards that wait for a worker; one whose worker was lost comes back."""

from collections import Counter, deque
from collections.abc import Iterator

from tertium.errors import TertiumError
from tertium.jobs.work import Task

__all__ = ["TaskQueue"]

_ATTEMPTS = 3


class TaskQueue:
    """Tasks in order, read from the input one ahead; what was lost goes first.

    Args:
        tasks: shards with their rows; drawn when a worker is free, so that memory stays bounded.
    """

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks = tasks
        self._waiting: deque[Task] = deque()
        self._losses: Counter[int | None] = Counter()

    def fetch(self) -> bool:
        """Read one task ahead, while all workers are busy; False if there is none."""
        if not self._waiting and (task := next(self._tasks, None)) is not None:
            self._waiting.append(task)
        return bool(self._waiting)

    def take(self) -> Task | None:
        """The next task, or None."""
        return self._waiting.popleft() if self.fetch() else None

    def lost(self, task: Task | None, reason: str) -> None:
        """A worker ended with ``task`` in its hands, or before it could take one.

        Raises:
            TertiumError: this was the third time.
        """
        key = None if task is None else task[0].index
        self._losses[key] += 1
        if self._losses[key] >= _ATTEMPTS:
            first = "before it could begin" if task is None else f"at {_where(task)}"
            raise TertiumError(
                f"A worker ended {_ATTEMPTS} times {first} ({reason}). If memory is short, use "
                "fewer --workers. Finished shards are kept: the same command goes on."
            )
        if task is not None:
            self._waiting.appendleft(task)


def _where(task: Task) -> str:
    shard, items = task
    return f"shard {shard.index}, lines {items[0].line} to {items[-1].line}"
