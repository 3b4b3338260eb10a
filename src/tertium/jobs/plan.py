"""Which rows make up which shard; nothing here touches a file."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tertium.data.shards import Shard
from tertium.errors import TertiumError

__all__ = ["pick", "shard_size"]

T = TypeVar("T")

_PARTS = 64  # at least so many shards where rows allow: the last ones end at about the same time
_STEP, _MOST = 1024, 65_536


def shard_size(rows: int) -> int:
    """Rows of a shard where nobody says otherwise; it depends on the number of rows alone.

    >>> [shard_size(rows) for rows in (10, 100_000, 1_000_000, 10**9)]
    [1024, 2048, 16384, 65536]
    """
    return min(max(-(-rows // _PARTS // _STEP) * _STEP, _STEP), _MOST)


def pick(items: Iterable[T], shards: Sequence[Shard]) -> Iterator[tuple[Shard, list[T]]]:
    """Each of ``shards`` with its items, from a stream of all of them; only one is in memory.

    >>> from tertium.data.shards import plan
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
