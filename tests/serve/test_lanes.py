from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.serve.lanes import Lane, Refusal, Task
from tertium.serve.reading import Item


class Lengths:
    """A text is a number: that of its tokens, and its row."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []

    def read(self, contents: Sequence[int]) -> list[Item]:
        if -1 in contents:
            raise ValueError("unreadable")
        return [Item(content, content) for content in contents]

    def run(self, items: Sequence[Item]) -> np.ndarray:
        self.runs.append([item.tokens for item in items])
        return np.array([[item.tokens] for item in items], np.float32)


def lane(budget: int = 10, most: int = 1000) -> tuple[Lane, Lengths]:
    reader = Lengths()
    return Lane(reader, budget=budget, most=most), reader


def task(number: int, *contents: int, alone: bool = False) -> Task:
    return Task({"id": number, "kind": "embed", "alone": alone}, contents)


def refused(task: Task, error: Exception) -> None:
    raise error


def drain(queue: Lane) -> list[list[tuple[int, int, int]]]:
    rounds = []
    while parts := queue.gather():
        rounds.append([(part.task.id, part.start, part.end) for part in parts])
        queue.run(parts)
    return rounds


@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=6), max_size=6),
    st.integers(1, 30),
)
def test_every_item_gets_its_row_within_the_budget(sizes: list[list[int]], budget: int) -> None:
    queue, reader = lane(budget)
    tasks = [task(number, *each) for number, each in enumerate(sizes)]
    queue.admit(tasks, refused)
    drain(queue)
    for each, wanted in zip(tasks, sizes, strict=True):
        assert each.finished and each.rows is not None
        assert each.rows[:, 0].tolist() == wanted
    assert all(sum(run) <= budget or len(run) == 1 for run in reader.runs)
    assert not queue.busy


def test_small_requests_do_not_wait_for_the_end_of_a_large_one() -> None:
    queue, _ = lane(budget=10)
    queue.admit([task(1, *[5] * 6), task(2, 5), task(3, 5)], refused)
    assert drain(queue) == [[(1, 0, 2)], [(2, 0, 1), (3, 0, 1)], [(1, 2, 4)], [(1, 4, 6)]]


def test_the_same_text_of_several_requests_is_run_once() -> None:
    queue, reader = lane(budget=100)
    queue.admit([task(1, 3, 4), task(2, 4, 3, 3)], refused)
    drain(queue)
    assert reader.runs == [[3, 4]]


def test_a_suspect_runs_alone() -> None:
    queue, _ = lane(budget=100)
    queue.admit([task(1, 1), task(2, 1, alone=True), task(3, 1)], refused)
    assert [[part[0] for part in parts] for parts in drain(queue)] == [[1], [2], [3]]


def test_dropped_requests_are_not_run() -> None:
    queue, reader = lane(budget=2)
    first, second = task(1, 2, 2), task(2, 2)
    queue.admit([first, second], refused)
    queue.run(queue.gather())
    first.dropped = second.dropped = True
    assert queue.gather() == [] and reader.runs == [[2]] and not queue.busy


def test_too_many_tokens_are_refused_and_the_others_stay() -> None:
    queue, _ = lane(most=10)
    told: list[tuple[int, str]] = []
    queue.admit([task(1, 11), task(2, -1), task(3, 10)], lambda t, e: told.append((t.id, str(e))))
    assert [number for number, _ in told] == [1, 2] and "11 tokens" in told[0][1]
    assert [[part[0] for part in parts] for parts in drain(queue)] == [[3]]


def test_numbers_that_are_none_are_refused() -> None:
    queue, reader = lane()
    reader.run = lambda items: np.full((len(items), 1), np.nan, np.float32)  # type: ignore
    queue.admit([task(1, 1)], refused)
    with pytest.raises(Refusal, match="not finite"):
        queue.run(queue.gather())
