"""Which models are in memory, which leave, and that no request is forgotten meanwhile."""

import gc
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.errors import TertiumError
from tertium.serve.batching import QueuedRequest
from tertium.serve.errors import APIError
from tertium.serve.loaded import HostedModel, LoadedModels


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """Nothing here is large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda: 0)
        yield


class Stub:
    """Holds what it is given until somebody takes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pinned = False
        self.tasks: deque[QueuedRequest] = deque()

    @property
    def busy(self) -> bool:
        return bool(self.tasks)

    def admit(self, task: QueuedRequest) -> None:
        if task.contents == ["refuse me"]:
            raise APIError(400, "refused", "No.")
        self.tasks.append(task)


class Memory(LoadedModels):
    """As the worker uses it, but every load ends before the next step."""

    def __init__(self, most: int) -> None:
        self.loads: list[str] = []
        self.refused: list[tuple[int, str]] = []
        super().__init__(self._make, most=most)

    def _make(self, name: str) -> HostedModel:
        self.loads.append(name)
        if name == "broken":
            raise TertiumError("It is damaged.")
        if name == "odd":
            raise ValueError("a text that nobody may read")
        return cast(HostedModel, Stub(name))

    def ask(self, name: str, number: int = 0, *contents: str) -> QueuedRequest:
        task = QueuedRequest({"id": number, "kind": "embed", "model": name}, list(contents))
        self.admit(task)
        return task

    def step(self) -> None:
        self.advance(self._refuse)
        while self._coming is not None and not self.has_news:
            time.sleep(0.001)
        self.advance(self._refuse)

    def _refuse(self, task: QueuedRequest, error: Exception) -> None:
        assert isinstance(error, APIError)
        self.refused.append((task.id, error.code))

    def work(self, name: str) -> list[int]:
        """What a model has waiting, which it then has no more."""
        model: Any = self[name]
        done = [task.id for task in model.tasks]
        model.tasks.clear()
        return done

    @property
    def names(self) -> list[str]:
        return [model.name for model in self]


def test_a_model_is_loaded_when_it_is_asked_for_and_then_stays() -> None:
    memory = Memory(2)
    memory.step()
    assert memory.names == []
    memory.ask("a", 1)
    memory.ask("a", 2)
    memory.step()
    assert memory.work("a") == [1, 2]
    memory.ask("a", 3)
    memory.step()
    assert memory.work("a") == [3]
    assert memory.loads == ["a"]


def test_the_least_recently_used_leaves() -> None:
    memory = Memory(2)
    for name in "abac":
        memory.ask(name)
        memory.step()
        memory.work(name)
    assert memory.names == ["a", "c"] and memory.loads == ["a", "b", "c"]


def test_an_idle_model_leaves_before_a_busy_one() -> None:
    memory = Memory(2)
    memory.ask("a", 1)
    memory.step()
    memory.ask("b")
    memory.step()
    memory.work("b")
    memory.ask("c")
    memory.step()
    assert memory.names == ["a", "c"] and memory.work("a") == [1]


def test_a_busy_model_finishes_what_it_has_and_comes_back_for_the_rest() -> None:
    memory = Memory(1)
    memory.ask("a", 1)
    memory.step()
    memory.ask("b", 2)
    memory.step()
    memory.ask("a", 3)  # too late: it is leaving
    memory.step()
    assert memory.names == ["a"] and memory.work("a") == [1]
    memory.step()
    assert memory.names == ["b"]
    memory.step()
    assert memory.names == ["b"]  # which is busy
    assert memory.work("b") == [2]
    memory.step()
    assert memory.names == ["a"] and memory.work("a") == [3]


def test_a_model_that_nobody_waits_for_any_more_costs_nobody_a_place() -> None:
    memory = Memory(1)
    memory.ask("a", 1)
    memory.step()
    deserted = memory.ask("b", 2)
    memory.step()
    memory.ask("a", 3)
    deserted.dropped = True
    memory.step()
    assert memory.loads == ["a"] and memory.work("a") == [1, 3]


def test_a_model_that_was_to_leave_stays_if_another_is_idle_first() -> None:
    memory = Memory(2)
    for number, name in enumerate("ab", 1):
        memory.ask(name, number)
        memory.step()
    memory.ask("c", 3)
    memory.step()
    memory.ask("a", 4)  # it was asked to leave
    assert memory.work("b") == [2]
    memory.step()
    assert memory.names == ["a", "c"] and memory.work("a") == [1, 4] and memory.work("c") == [3]


@pytest.mark.parametrize(
    ("name", "said"), [("broken", "It is damaged."), ("odd", "ValueError at ")]
)
def test_what_cannot_be_loaded_refuses_those_who_wait_and_says_why(name: str, said: str) -> None:
    memory = Memory(1)
    memory.ask("a", 1)
    memory.step()
    assert memory.work("a") == [1]
    memory.ask(name, 2)
    memory.step()
    memory.ask("a", 3)
    assert memory.refused == [(2, "model_unavailable")]
    assert memory.failed[name].startswith(said) and "nobody may read" not in memory.failed[name]
    memory.step()
    assert memory.work("a") == [3]


def test_a_refusal_of_one_that_waited_reaches_it_alone() -> None:
    memory = Memory(1)
    memory.ask("a", 1, "refuse me")
    memory.ask("a", 2)
    memory.step()
    assert memory.refused == [(1, "refused")] and memory.work("a") == [2]


def test_a_pinned_model_stays_and_does_not_count() -> None:
    memory = Memory(1)
    memory.load("a").pinned = True
    for name in "bcb":
        memory.ask(name)
        memory.step()
        memory.work(name)
    assert memory.names == ["a", "b"]


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["ask", "work", "drop"]), st.sampled_from("abcd"))),
)
def test_every_request_reaches_its_model_once(most: int, moves: list[tuple[str, str]]) -> None:
    memory = Memory(most)
    asked: list[QueuedRequest] = []
    done: list[int] = []
    for move, name in moves:
        if move == "ask":
            asked.append(memory.ask(name, len(asked)))
        elif move == "work" and name in memory.names:
            done += memory.work(name)
        elif move == "drop" and asked:
            asked[-1].dropped = True
        memory.step()
        assert len(memory.names) <= most
    for _ in range(2 * len(moves) + 1):  # as long as anything waits
        for name in memory.names:
            done += memory.work(name)
        memory.step()
    wanted = {task.id for task in asked if not task.dropped}
    assert len(done) == len(set(done)) and wanted <= set(done) and not memory._waiting
