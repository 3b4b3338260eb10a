import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis.strategies import integers, sets

from tertium.data.shards import Shard, plan
from tertium.errors import TertiumError
from tertium.jobs.source import pick, shard_size


@given(rows=integers(0, 500), size=integers(1, 60))
def test_every_row_is_in_exactly_one_shard_and_in_order(rows: int, size: int) -> None:
    shards = plan(rows, size=size)
    assert [row for shard in shards for row in range(shard.start, shard.stop)] == list(range(rows))
    assert [shard.index for shard in shards] == list(range(len(shards)))
    assert all(len(shard) == size for shard in shards[:-1])
    assert all(0 < len(shard) <= size for shard in shards)
    assert len({shard.name for shard in shards}) == len(shards)
    assert sorted(shard.name for shard in shards) == [shard.name for shard in shards]


@given(
    rows=integers(0, 200), size=integers(1, 30), seed=integers(0, 99), chosen=sets(integers(0, 60))
)
def test_picking_gives_each_shard_its_own_rows(
    rows: int, size: int, seed: int, chosen: set[int]
) -> None:
    wanted = [shard for shard in plan(rows, size=size) if shard.index in chosen]
    random.Random(seed).shuffle(wanted)
    found = list(pick(iter(range(rows)), wanted))
    assert [shard for shard, _ in found] == sorted(wanted, key=lambda shard: shard.index)
    assert all(items == list(range(s.start, s.stop)) for s, items in found)


@given(rows=integers(1, 200), size=integers(1, 30), taken=integers(1, 200))
def test_picking_reads_no_further_than_it_must(rows: int, size: int, taken: int) -> None:
    seen = 0

    def stream() -> Iterator[int]:
        nonlocal seen
        for row in range(rows):
            seen += 1
            yield row

    shards = plan(rows, size=size)
    for number, (shard, _) in enumerate(pick(stream(), shards), 1):
        assert seen == shard.stop
        if number == taken:
            break


def test_a_stream_that_ends_early_is_not_taken_for_whole() -> None:
    with pytest.raises(TertiumError, match="ended before row 4"):
        list(pick("abc", plan(4, size=2)))


def test_a_shard_has_rows() -> None:
    with pytest.raises(TertiumError, match="at least one row, not 0"):
        plan(4, size=0)
    assert plan(0, size=3) == []
    assert plan(1, size=3) == [Shard(0, 0, 1)]


@given(rows=integers(1, 10**10))
def test_the_default_size_follows_the_number_of_rows(rows: int) -> None:
    size = shard_size(rows)
    assert 1024 <= size <= 65_536 and size % 1024 == 0
    assert shard_size(rows + 1) >= size
    if 65_536 <= rows <= 4_194_304:  # neither bound is reached: about 64 shards
        assert 32 < -(-rows // size) <= 64
