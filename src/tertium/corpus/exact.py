"""Exact search and exact pairs, in blocks: no matrix of all texts by all texts is ever held."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tertium.corpus.rows import Matrix, Positions, Rows, Scores, cosines
from tertium.corpus.screen import Screen, close_in_block

__all__ = ["SLACK", "Found", "close_pairs", "nearest", "ranked"]

SLACK = 1e-5  # products of blocks are nearer than that to the similarity that decides
_HELD = 1 << 20  # similarities held at once: 4 MB
_PICKED = 1 << 18  # numbers of candidates' vectors held at once
_LEFT, _RIGHT = 512, 2048  # rows of a block: their products stay in a processor's cache


class Found(NamedTuple):
    """Neighbours of each query, the nearest first, those of equal nearness by position.

    Where fewer were found than asked for, positions end in -1 and scores in minus infinity.
    """

    positions: Positions  # [queries, k]
    scores: Scores  # [queries, k]


def nearest(rows: Rows, queries: Matrix, k: int) -> Found:
    """The ``k`` rows nearest to each query by cosine; all rows where there are fewer.

    Args:
        rows: what is searched.
        queries: unit vectors, one a row.
        k: how many neighbours.
    """
    wide = min(k, len(rows))
    positions = np.empty((len(queries), wide), np.int64)
    for at in range(0, len(queries), _LEFT):
        positions[at : at + _LEFT] = _nearest(rows, queries[at : at + _LEFT], wide)
    return ranked(rows, queries, positions)


def _nearest(rows: Rows, queries: Matrix, k: int) -> Positions:
    """The same in no particular order."""
    scores = np.empty((len(queries), 0), np.float32)
    positions = np.empty((len(queries), 0), np.int64)
    for start, block in rows.blocks(min(max(_HELD // len(queries), _LEFT), 1 << 16)):
        here = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        scores = np.hstack([scores, queries @ block.T])
        positions = np.hstack([positions, here])
        if scores.shape[1] > k:
            best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            scores = np.take_along_axis(scores, best, axis=1)
            positions = np.take_along_axis(positions, best, axis=1)
    return positions


def ranked(rows: Rows, queries: Matrix, positions: Positions) -> Found:
    """Score candidates once more, in double precision, and put them in order.

    Args:
        rows: what the positions point at.
        queries: unit vectors, one a row.
        positions: candidates of each query; -1 for none.
    """
    n, k = positions.shape
    scores = np.empty((n, k))
    height = max(1, _PICKED // max(k * rows.dimension, 1))
    for at in range(0, n, height):
        some = positions[at : at + height]
        vectors = rows.take(np.maximum(some, 0).ravel()).reshape(*some.shape, rows.dimension)
        scores[at : at + height] = cosines(vectors, queries[at : at + height, None])
    scores[positions < 0] = -np.inf
    order = np.lexsort((np.where(positions < 0, len(rows), positions), -scores), axis=-1)
    return Found(
        np.take_along_axis(positions, order, axis=1), np.take_along_axis(scores, order, axis=1)
    )


def close_pairs(
    rows: Rows, threshold: float, *, done: Callable[[int], object]
) -> Iterator[tuple[Positions, Positions, Scores]]:
    """Pairs ``i < j`` whose cosine reaches ``threshold`` or is a hair below, block by block.

    Args:
        rows: all rows are compared with all others, each pair once.
        threshold: least cosine, less ``SLACK``.
        done: is told of rows that have met all others.
    """
    screen = Screen.fitting(rows, threshold)
    for top in range(0, len(rows), _LEFT):
        left = np.arange(top, min(top + _LEFT, len(rows)))
        for start in range(top, len(rows), _RIGHT):
            right = np.arange(start, min(start + _RIGHT, len(rows)))
            first, second, scores = close_in_block(rows, screen, left, right, threshold - SLACK)
            upper = left[first] < right[second]
            yield left[first[upper]], right[second[upper]], scores[upper]
        done(len(left))
