"""Batches without padding waste."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

__all__ = ["chunks", "lean_batches", "padded", "token_budget_batches"]

T = TypeVar("T")

_CALL = 1 / 32  # of the budget: what a batch costs beside its tokens


def token_budget_batches(lengths: np.ndarray, *, budget: int) -> list[np.ndarray]:
    """Cut indices, longest first, into batches of at most ``budget`` tokens padding included.

    A text longer than the budget gets a batch of its own. Longest first means that memory peaks
    at once and that a progress bar speeds up rather than slows down.

    >>> token_budget_batches(np.array([3, 9, 4, 4]), budget=12)
    [array([1]), array([2, 3, 0])]
    """
    order = _longest_first(lengths, budget)
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        size = max(budget // longest, 1)
        batches.append(order[start : start + size])
        start += size
    return batches


def lean_batches(lengths: np.ndarray, *, budget: int) -> list[np.ndarray]:
    """As :func:`token_budget_batches`, but cut where padding costs more than another batch.

    The cheapest cuts between texts of different lengths, by dynamic programming: a batch costs its
    tokens, padding included, and a part of the budget besides. Of a few texts of all lengths, one
    large batch would often be half padding.

    >>> lean_batches(np.array([3, 40, 4, 38]), budget=256)
    [array([1, 3]), array([2, 0])]
    """
    order = _longest_first(lengths, budget)
    if len(order) == 1:
        return [order]
    lengths = np.maximum(lengths[order], 1)
    begins = np.flatnonzero(np.diff(lengths, prepend=0))  # where a shorter length begins
    widths, edges = lengths[begins], np.append(begins, len(order))
    sizes = np.maximum(budget // widths, 1)
    least, last = np.zeros(len(edges)), np.zeros(len(edges), int)
    for end in range(1, len(edges)):
        counts = edges[end] - edges[:end]
        calls = -(-counts // sizes[:end])
        costs = least[:end] + counts * widths[:end] + calls * (_CALL * budget)
        last[end] = costs.argmin()
        least[end] = costs[last[end]]
    batches: list[np.ndarray] = []
    end = len(begins)
    while end:
        begin = last[end]
        run = order[edges[begin] : edges[end]]
        batches[:0] = np.array_split(run, -(-len(run) // sizes[begin]))
        end = begin
    return batches


def _longest_first(lengths: np.ndarray, budget: int) -> np.ndarray:
    if budget < 1:
        raise ValueError(f"the token budget must be at least 1, got {budget}")
    return np.argsort(-lengths, kind="stable")


def padded(
    rows: Sequence[Sequence[int]], *, padding: int, width: int | None = None, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Rows of token ids as one tensor, and the mask of what is real in it.

    Args:
        rows: token ids.
        padding: fills up what is shorter than the longest row, or than ``width``.
        width: of the tensor (default: the longest row).
        left: fill up on the left.

    >>> padded([[5, 6, 7], [8]], padding=0)[0].tolist()
    [[5, 6, 7], [8, 0, 0]]
    """
    lengths = np.fromiter(map(len, rows), int, len(rows))
    places = np.arange(int(lengths.max(initial=0)) if width is None else width)
    real = (places[::-1] if left else places) < lengths[:, None]
    ids = np.full(real.shape, padding)
    ids[real] = np.fromiter(itertools.chain.from_iterable(rows), int, int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(real)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut a stream into lists of ``size`` items, the last one shorter; only one is in memory.

    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
