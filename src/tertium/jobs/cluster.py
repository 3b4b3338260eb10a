"""Workers as Ray actors, on one or more machines.

Actors return the bytes of a shard, and this process writes them: the machines need no shared disk,
and every file is written atomically here, as in a local job.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tertium.data.shards import Done
from tertium.errors import TertiumError, require
from tertium.files import atomic_path
from tertium.jobs.folder import disk_errors
from tertium.jobs.work import ShardTask, ShardWorker, Work, check_model
from tertium.jobs.workers import TaskQueue, limit_threads

__all__ = ["Actors"]


@dataclass
class _ActorHandle:
    actor: Any
    task: ShardTask | None = None  # None while it starts, or waits


class Actors:
    """Stateful actors that load the model once; a lost actor is replaced.

    Args:
        work: what they do.
        folder: where this process writes.
        fingerprint: hash of the model, which must be the same on every machine.
        count: number of actors (default: as many as the cluster has processors for).
        most: maximum number of actors: the number of shards.
        address: address of a running cluster (default: a local one for this job).
    """

    def __init__(
        self,
        work: Work,
        folder: Path,
        *,
        fingerprint: str,
        most: int,
        count: int | None = None,
        address: str | None = None,
    ) -> None:
        require("cluster", purpose="Running on Ray")
        self._work = work
        self._folder = folder
        self._fingerprint = fingerprint
        self._count = None if count is None else min(count, most)
        self._most = most
        self._address = address

    def run(
        self,
        tasks: Iterator[ShardTask],
        *,
        finished: Callable[[Done], None],
        advanced: Callable[[int], object],
    ) -> None:
        """Run all tasks; ``finished`` is called with each shard, ``advanced`` with its rows."""
        import ray

        with contextlib.redirect_stdout(sys.stderr):  # Ray prints messages
            ours = self._connect()
            try:
                self._run(TaskQueue(tasks), finished, advanced)
            finally:
                if ours:
                    ray.shutdown()

    def _run(
        self, queue: TaskQueue, finished: Callable[[Done], None], advanced: Callable[[int], object]
    ) -> None:
        import ray

        idle: list[_ActorHandle] = []
        awaited: dict[Any, _ActorHandle] = {}
        for _ in range(self._count or self._processors()):
            self._start(awaited)
        while True:
            while idle and (task := queue.take()) is not None:
                handle = idle.pop()
                handle.task = task
                awaited[handle.actor.pack.remote(*task)] = handle
            if not queue.fetch() and all(handle.task is None for handle in awaited.values()):
                break
            (reference,), _ = ray.wait(list(awaited), num_returns=1)
            handle = awaited.pop(reference)
            try:
                packed = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise _cause(error) from error
            except ray.exceptions.RayError as error:  # the actor, its machine or its result is lost
                ray.kill(handle.actor)
                queue.lost(handle.task, str(error).strip().splitlines()[0])
                self._start(awaited)
                continue
            if packed is not None:
                finished(self._store(packed, handle.task))
                advanced(packed[1].rows)
            handle.task = None
            idle.append(handle)
        for handle in [*idle, *awaited.values()]:
            ray.kill(handle.actor)

    def _start(self, awaited: dict[Any, _ActorHandle]) -> None:
        """Start an actor, which gets its first task when it is ready, which may take a while."""
        import ray

        actor = ray.remote(num_cpus=self._work.threads)(_Actor).remote(
            self._work, self._fingerprint
        )
        awaited[actor.ready.remote()] = _ActorHandle(actor)

    def _store(self, packed: tuple[bytes, Done], task: ShardTask | None) -> Done:
        assert task is not None
        content, done = packed
        path = self._folder / task[0].name
        with disk_errors(self._folder), atomic_path(path, durable=True) as temporary:
            temporary.write_bytes(content)
        return done

    def _connect(self) -> bool:
        """Connect to the cluster; True if it must be disconnected at the end."""
        import ray

        if ray.is_initialized():
            return False
        common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self._address is not None:
                ray.init(address=self._address, **common)
            else:
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
                wanted = self._count and self._count * self._work.threads
                ray.init(
                    address="local",  # not another cluster on this machine
                    num_cpus=wanted or max(os.cpu_count() or 1, self._work.threads),
                    include_dashboard=False,
                    **common,
                )
        except Exception as error:  # Ray raises many kinds of errors
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise TertiumError(
                f"Cannot connect to a Ray cluster at {self._address or 'this machine'}: {reason}. "
                "Start one with 'ray start --head', and set RAY_AUTH_TOKEN if it requires a token; "
                "or omit --ray-address."
            ) from error
        return True

    def _processors(self) -> int:
        import ray

        room = int(ray.cluster_resources().get("CPU", 1)) // self._work.threads
        return max(min(room, self._most), 1)


class _Actor:
    """The remote actor; it loads the model with its first shard."""

    def __init__(self, work: Work, fingerprint: str) -> None:
        self._work = work
        self._fingerprint = fingerprint
        self._worker: ShardWorker | None = None

    def ready(self) -> None:
        """Returns once the actor has started."""

    def pack(self, *task: Any) -> tuple[bytes, Done]:
        if self._worker is None:
            check_model(self._work, self._fingerprint)
            limit_threads(self._work.threads)
            self._worker = ShardWorker(self._work)
        return self._worker.pack((task[0], task[1]))


def _cause(error: Any) -> Exception:
    """What an actor raised; without Ray's traceback if it is an error of ours."""
    cause = error.cause
    return TertiumError(str(cause)) if isinstance(cause, TertiumError) else RuntimeError(str(error))
