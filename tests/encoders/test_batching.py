import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertium.encoders.batching import token_budget_batches

LENGTHS = st.lists(st.integers(0, 600), max_size=60).map(lambda xs: np.array(xs, int))
BUDGETS = st.integers(1, 2000)


@given(lengths=LENGTHS, budget=BUDGETS)
def test_every_index_once(lengths: np.ndarray, budget: int) -> None:
    batches = token_budget_batches(lengths, budget=budget)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))
    assert all(len(batch) for batch in batches)


@given(lengths=LENGTHS, budget=BUDGETS)
def test_no_batch_exceeds_the_budget_unless_it_is_one_text(
    lengths: np.ndarray, budget: int
) -> None:
    for batch in token_budget_batches(lengths, budget=budget):
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget


@given(lengths=LENGTHS, budget=BUDGETS)
def test_longest_first_and_ties_in_input_order(lengths: np.ndarray, budget: int) -> None:
    order = [i for batch in token_budget_batches(lengths, budget=budget) for i in batch.tolist()]
    assert order == sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))


@given(lengths=LENGTHS, budget=BUDGETS)
def test_batches_are_as_large_as_the_budget_allows(lengths: np.ndarray, budget: int) -> None:
    batches = token_budget_batches(lengths, budget=budget)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(lengths[batch].max(), 1) > budget


@pytest.mark.parametrize("budget", [0, -5])
def test_a_budget_below_one_is_refused(budget: int) -> None:
    with pytest.raises(ValueError, match=str(budget)):
        token_budget_batches(np.array([1]), budget=budget)
