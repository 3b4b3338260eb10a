from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.serve.batching import BatchQueue, FairQueue, QueuedRequest, TimeShares, Tokenized
from tertium.serve.errors import APIError


class Lengths:
    """A text is a number: that of its tokens, and its row."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.reads: list[list[int]] = []

    def size(self, content: int) -> int:
        return 4 * abs(content)

    def read(self, contents: Sequence[int]) -> list[Tokenized]:
        self.reads.append(list(contents))
        if -1 in contents:
            raise ValueError("unreadable")
        return [Tokenized(content, content) for content in contents]

    def run(self, items: Sequence[Tokenized]) -> np.ndarray:
        self.runs.append([item.tokens for item in items])
        return np.array([[item.tokens] for item in items], np.float32)


def new_queue(budget: int = 10, most: int = 1000) -> tuple[BatchQueue, Lengths]:
    reader = Lengths()
    return BatchQueue(reader, budget=budget, most=most), reader


def task(number: int, *contents: int, alone: bool = False, client: str = "") -> QueuedRequest:
    return QueuedRequest(
        {"id": number, "kind": "embed", "alone": alone, "client": client}, contents
    )


def refused(task: QueuedRequest, error: Exception) -> None:
    raise error


def admit(queue: BatchQueue, *tasks: QueuedRequest) -> None:
    for each in tasks:
        queue.admit(each)


def drain(
    queue: BatchQueue, refuse: Callable[[QueuedRequest, Exception], None] = refused
) -> list[list[tuple[int, int, int]]]:
    rounds = []
    while queue.busy:
        if parts := queue.gather(refuse):
            rounds.append([(part.task.id, part.start, part.end) for part in parts])
            queue.run(parts)
    return rounds


@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=6), max_size=6),
    st.integers(1, 30),
)
def test_every_item_gets_its_row_within_the_budget(sizes: list[list[int]], budget: int) -> None:
    queue, reader = new_queue(budget)
    tasks = [task(number, *each) for number, each in enumerate(sizes)]
    admit(queue, *tasks)
    drain(queue)
    for each, wanted in zip(tasks, sizes, strict=True):
        assert each.finished and each.rows is not None
        assert each.rows[:, 0].tolist() == wanted
    assert all(sum(run) <= budget or len(run) == 1 for run in reader.runs)
    assert not queue.busy


def test_small_requests_overtake_a_large_one() -> None:
    queue, _ = new_queue(budget=10)
    admit(queue, task(1, *[5] * 6))
    queue.run(queue.gather(refused))
    admit(queue, task(2, 5), task(3, 5))
    assert drain(queue) == [[(2, 0, 1), (3, 0, 1)], [(1, 2, 4)], [(1, 4, 6)]]


def test_a_stream_of_small_requests_does_not_starve_a_large_one() -> None:
    queue, _ = new_queue(budget=10)
    large = task(0, *[5] * 6)
    admit(queue, large)
    for number in range(1, 100):
        admit(queue, task(number, 9))
        queue.run(queue.gather(refused))
        if large.finished:
            break
    assert 5 < number < 20


def test_clients_share_the_worker_however_much_one_of_them_sends() -> None:
    queue, _ = new_queue(budget=10)
    admit(queue, *(task(number, 10, client="busy") for number in range(10)))
    admit(queue, *(task(100 + number, 10, client="modest") for number in range(3)))
    order = [parts[0][0] for parts in drain(queue)]
    assert order[:6] == [0, 100, 1, 101, 2, 102]


def test_the_largest_requests_are_read_in_parts_and_a_small_one_does_not_wait_for_them() -> None:
    queue, reader = new_queue(budget=1000, most=100_000)
    admit(queue, *(task(number, *[500] * 150) for number in range(31)))
    assert reader.reads == []  # nothing is read on arrival
    assert queue.gather(refused) == []  # one of them is being read: 300,000 characters
    small = task(99, 3)
    admit(queue, small)
    queue.run(queue.gather(refused))
    assert small.finished
    assert all(sum(map(reader.size, read)) < 32_768 + 2000 for read in reader.reads)


def test_what_nobody_waits_for_is_not_read_any_further() -> None:
    queue, reader = new_queue(budget=1000, most=100_000)
    large = task(1, *[500] * 150)
    admit(queue, large)
    assert queue.gather(refused) == []
    large.dropped = True  # its deadline has passed
    assert queue.gather(refused) == [] and len(reader.reads) == 1 and not queue.busy


def test_a_request_is_refused_as_soon_as_its_tokens_are_too_many() -> None:
    queue, reader = new_queue(budget=1000, most=100_000)
    told: list[str] = []
    admit(queue, task(1, *[5000] * 100))
    drain(queue, lambda t, e: (told.append(str(e)), setattr(t, "dropped", True)))  # type: ignore
    assert "the limit is 100,000" in told[0] and sum(map(len, reader.reads)) < 30
    assert reader.runs == []


def test_a_batch_of_a_slow_model_is_short() -> None:
    queue, reader = new_queue(budget=4096, most=100_000)
    queue.ran(4096, seconds=4.0)  # a quarter of a second is 256 tokens
    admit(queue, task(1, *[100] * 40))
    drain(queue)
    assert {len(run) for run in reader.runs} <= {1, 2}


def test_the_same_text_of_several_requests_is_run_once() -> None:
    queue, reader = new_queue(budget=100)
    admit(queue, task(1, 3, 4), task(2, 4, 3, 3))
    drain(queue)
    assert reader.runs == [[3, 4]]


def test_a_suspect_runs_alone() -> None:
    queue, _ = new_queue(budget=100)
    admit(queue, task(1, 1), task(2, 1, alone=True), task(3, 1))
    assert [[part[0] for part in parts] for parts in drain(queue)] == [[1], [2], [3]]


def test_dropped_requests_are_not_run() -> None:
    queue, reader = new_queue(budget=2)
    first, second = task(1, 2), task(2, 2, 2)
    admit(queue, first, second)
    queue.run(queue.gather(refused))
    second.dropped = True
    assert queue.gather(refused) == [] and reader.runs == [[2]] and not queue.busy


def test_too_many_tokens_are_refused_and_the_others_stay() -> None:
    queue, _ = new_queue(most=10)
    told: list[tuple[int, str]] = []

    def refuse(refused: QueuedRequest, error: Exception) -> None:
        refused.dropped = True
        told.append((refused.id, str(error)))

    admit(queue, task(1, 11), task(2, -1), task(3, 10))
    assert [[part[0] for part in parts] for parts in drain(queue, refuse)] == [[3]]
    assert sorted(number for number, _ in told) == [1, 2]
    assert any("11 or more tokens" in said for _, said in told)


def test_numbers_that_are_none_are_refused() -> None:
    queue, reader = new_queue()
    reader.run = lambda items: np.full((len(items), 1), np.nan, np.float32)  # type: ignore
    admit(queue, task(1, 1))
    with pytest.raises(APIError, match="not finite"):
        queue.run(queue.gather(refused))


def served(queue: FairQueue[str]) -> list[str]:
    found = []
    while (turn := queue.pop()) is not None:
        found.append(turn.item)
        queue.finish(turn, used=turn.cost)
    return found


def test_equal_items_go_in_the_order_of_their_arrival() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "abc":
        queue.add(item, client="one", cost=5)
    assert queue and served(queue) == ["a", "b", "c"] and not queue


def test_what_is_put_back_keeps_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "ab":
        queue.add(item, client="one", cost=5)
    turn = queue.pop()
    assert turn is not None and turn.item == "a"
    queue.put_back(turn)
    assert served(queue) == ["a", "b"]


def test_a_client_that_was_idle_has_saved_up_nothing() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(100):
        queue.add(f"early {number}", client="one", cost=5)
        served(queue)
    for number in range(3):
        queue.add(f"a{number}", client="one", cost=5)
        queue.add(f"b{number}", client="two", cost=5)
    assert served(queue) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_time_is_shared_equally_however_long_the_turns() -> None:
    shares: TimeShares[str] = TimeShares()
    seconds = {"batches": 0.4, "explanations": 0.1}
    spent = dict.fromkeys(seconds, 0.0)
    for _ in range(100):
        chosen = shares.next(list(seconds))
        assert chosen is not None
        shares.charge(chosen, seconds[chosen])
        spent[chosen] += seconds[chosen]
    assert abs(spent["batches"] - spent["explanations"]) <= 0.41


def test_who_was_idle_does_not_make_up_for_it() -> None:
    shares: TimeShares[str] = TimeShares()
    for _ in range(100):
        assert shares.next(["a"]) == "a"
        shares.charge("a", 1.0)
    turns = []
    for _ in range(10):
        chosen = shares.next(["a", "b"])
        assert chosen is not None
        turns.append(chosen)
        shares.charge(chosen, 1.0)
    assert 4 <= turns.count("b") <= 6 and shares.next([]) is None
