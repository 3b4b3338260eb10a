"""Explanations in turns: the small before the large, and nothing that nobody waits for."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tertium.serve.batching import QueuedRequest
from tertium.serve.explaining import Explaining, Explanations, Make, _parts, scorings


def task(number: int, parts: int) -> QueuedRequest:
    return QueuedRequest({"id": number, "kind": "explain"}, [parts])


def start(task: QueuedRequest) -> tuple[int, Make]:
    parts = task.contents[0]

    def make(pause: Callable[[], None]) -> Any:
        for _ in range(parts):
            pause()
        return {"parts": parts}

    return parts, make


def test_it_works_only_when_resumed_and_raises_what_was_raised() -> None:
    steps: list[int] = []

    def make(pause: Callable[[], None]) -> Any:
        for step in range(2):
            steps.append(step)
            pause()
        raise ValueError("at the end")

    explaining = Explaining(make)
    assert not steps
    explaining.resume()
    assert steps == [0] and not explaining.finished
    explaining.resume()
    explaining.resume()
    assert steps == [0, 1] and explaining.finished
    with pytest.raises(ValueError, match="at the end"):
        explaining.answer()


def test_a_small_explanation_does_not_wait_for_the_end_of_a_large_one() -> None:
    queue = Explanations(start)
    queue.admit(task(1, 50))
    order = []
    for turn in range(100):
        if turn == 10:
            queue.admit(task(2, 3))
        if (current := queue.current()) is None:
            break
        if (finished := queue.resume()) is not None:
            order.append((current.id, turn, finished.answer()))
    assert order == [(2, 13, {"parts": 3}), (1, 54, {"parts": 50})]
    assert not queue.busy


def test_what_nobody_waits_for_ends_and_leaves_no_thread() -> None:
    before = threading.active_count()
    queue = Explanations(start)
    first = task(1, 50)
    queue.admit(first)
    queue.current()
    queue.resume()
    assert threading.active_count() == before + 1
    first.dropped = True
    assert queue.current() is None and not queue.busy
    for thread in threading.enumerate()[before:]:
        thread.join(10)
    assert threading.active_count() == before


def test_a_text_that_items_share_counts_once() -> None:
    same = "b" * 1000
    items = [(f"{number:03}" + "a" * 97, same) for number in range(30)]
    sizes = [len(part) for part in _parts(items)]
    assert sum(sizes) == 30 and max(sizes) == 10
    assert [len(part) for part in _parts([("a" * 9000, "b")] * 2)] == [1, 1]


def test_scorings_are_known_before_the_first_one() -> None:
    assert scorings(128) == 158
