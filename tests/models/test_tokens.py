import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.models.tokens import lean_batches, run_batches, token_budget_batches

LENGTHS = st.lists(st.integers(0, 600), max_size=60).map(lambda xs: np.array(xs, int))
BUDGETS = st.integers(1, 2000)
Cut = Callable[..., list[np.ndarray]]


@pytest.mark.parametrize("cut", [token_budget_batches, lean_batches])
@given(lengths=LENGTHS, budget=BUDGETS)
def test_every_index_once(cut: Cut, lengths: np.ndarray, budget: int) -> None:
    batches = cut(lengths, budget=budget)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    assert all(len(batch) for batch in batches)


@pytest.mark.parametrize("cut", [token_budget_batches, lean_batches])
@given(lengths=LENGTHS, budget=BUDGETS)
def test_no_batch_exceeds_the_budget_unless_it_is_one_text(
    cut: Cut, lengths: np.ndarray, budget: int
) -> None:
    for batch in cut(lengths, budget=budget):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget


@pytest.mark.parametrize("cut", [token_budget_batches, lean_batches])
@given(lengths=LENGTHS, budget=BUDGETS)
def test_longest_first_and_ties_in_input_order(cut: Cut, lengths: np.ndarray, budget: int) -> None:
    order = [i for batch in cut(lengths, budget=budget) for i in batch.tolist()]
    assert order == sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))


@given(lengths=LENGTHS, budget=BUDGETS)
def test_batches_are_as_large_as_the_budget_allows(lengths: np.ndarray, budget: int) -> None:
    batches = token_budget_batches(lengths, budget=budget)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(lengths[batch].max(), 1) > budget


@given(
    lengths=st.lists(st.integers(1, 600), max_size=60, unique=True).map(lambda x: np.array(x, int)),
    budget=BUDGETS,
)
def test_no_dearer_than_batches_as_large_as_possible(lengths: np.ndarray, budget: int) -> None:
    assert cost(lean_batches(lengths, budget=budget), lengths, budget) <= cost(
        token_budget_batches(lengths, budget=budget), lengths, budget
    )


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7, unique=True).map(np.array),
    budget=st.integers(64, 256),
)
def test_all_cuts_of_a_few_texts_cost_as_much_or_more(lengths: np.ndarray, budget: int) -> None:
    order = np.argsort(-lengths)
    every = (
        np.split(order, np.flatnonzero([number >> bit & 1 for bit in range(len(order) - 1)]) + 1)
        for number in range(2 ** (len(order) - 1))
    )
    cheapest = min(cost(batches, lengths, budget) for batches in every)
    assert cost(lean_batches(lengths, budget=budget), lengths, budget) == pytest.approx(cheapest)


def test_a_few_texts_of_all_lengths_are_hardly_padded() -> None:
    lengths = np.random.default_rng(0).integers(5, 65, 16)
    tokens = [
        sum(len(batch) * lengths[batch].max() for batch in cut(lengths, budget=1024))
        for cut in (token_budget_batches, lean_batches)
    ]
    assert tokens[0] > 1.6 * lengths.sum() and tokens[1] < 1.2 * lengths.sum()


def cost(batches: Sequence[np.ndarray], lengths: np.ndarray, budget: int) -> float:
    """What the cutting is to make small."""
    tokens = sum(len(batch) * max(lengths[batch].max(), 1) for batch in batches)
    return float(tokens + len(batches) * budget / 32)


@pytest.mark.parametrize("cut", [token_budget_batches, lean_batches])
@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_below_one_is_refused(cut: Cut, budget: int) -> None:
    with pytest.raises(ValueError, match=str(budget)):
        cut(np.array([1]), budget=budget)


def test_a_few_texts_are_cut_for_all_workers() -> None:
    lengths = np.full(32, 20)
    assert [len(batch) for batch in lean_batches(lengths, budget=1024)] == [32]
    shared = lean_batches(lengths, budget=1024, workers=2)
    assert [len(batch) for batch in shared] == [16, 16]
    assert len(lean_batches(np.full(4, 20), budget=1024, workers=2)) == 1  # too little to share


def test_batches_run_at_once_and_come_in_order() -> None:
    both = threading.Barrier(2, timeout=10)

    def run(batch: int) -> int:
        both.wait()  # passes only if two are there
        return -batch

    assert list(run_batches(run, [1, 2, 3, 4], workers=2)) == [(1, -1), (2, -2), (3, -3), (4, -4)]


def test_an_error_ends_what_has_not_begun() -> None:
    begun = []

    def run(batch: int) -> None:
        begun.append(batch)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(run_batches(run, range(1000), workers=2))
    assert len(begun) < 1000
