"""Which rows make up which shard; nothing here touches a file."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tertium.errors import TertiumError

__all__ = ["Shard", "pick", "plan", "shard_size"]

T = TypeVar("T")

_PARTS = 64  # at least so many shards where rows allow: the last ones end at about the same time
_STEP, _MOST = 1024, 65_536


@dataclass(frozen=True)
class Shard:
    """Rows ``start`` to ``stop - 1`` of a job, counted from 0 over the rows that are good."""

    index: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """Its file.

        >>> Shard(7, 70, 80).name
        'part-000007.parquet'
        """
        return f"part-{self.index:06d}.parquet"


def shard_size(rows: int) -> int:
    """Rows of a shard where nobody says otherwise; it depends on the number of rows alone.

    >>> [shard_size(rows) for rows in (10, 100_000, 1_000_000, 10**9)]
    [1024, 2048, 16384, 65536]
    """
    return min(max(-(-rows // _PARTS // _STEP) * _STEP, _STEP), _MOST)


def plan(rows: int, *, size: int) -> list[Shard]:
    """Cut ``rows`` into shards of ``size``, the last one shorter: every row in exactly one.

    >>> [(shard.start, shard.stop) for shard in plan(5, size=2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    if size < 1:
        raise TertiumError(f"A shard needs at least one row, not {size}.")
    starts = range(0, rows, size)
    return [Shard(at, start, min(start + size, rows)) for at, start in enumerate(starts)]


def pick(items: Iterable[T], shards: Sequence[Shard]) -> Iterator[tuple[Shard, list[T]]]:
    """Each of ``shards`` with its items, from a stream of all of them; only one is in memory.

    >>> [(shard.index, items) for shard, items in pick("abcde", plan(5, size=2)[1:])]
    [(1, ['c', 'd']), (2, ['e'])]
    """
    stream, place = iter(items), 0
    for shard in sorted(shards, key=lambda shard: shard.start):
        next(itertools.islice(stream, shard.start - place, shard.start - place), None)
        found = list(itertools.islice(stream, len(shard)))
        if len(found) < len(shard):
            raise TertiumError(
                f"The input ended before row {shard.stop:,}: it has changed while it was read. "
                "Run the command again."
            )
        place = shard.stop
        yield shard, found
