"""Exact search and exact pairs, in blocks: no matrix of all texts by all texts is ever held."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Matrix, Positions, Rows, Scores, cosines

__all__ = ["SLACK", "CosineBound", "Found", "close_in_block", "close_pairs", "nearest", "ranked"]

SLACK = 1e-5  # products of blocks are nearer than that to the similarity that decides
_HELD = 1 << 20  # similarities held at once: 4 MB
_GATHERED = 1024  # rows that are picked out at once: they stay in a processor's cache
_PICKED = 1 << 18  # numbers of candidates' vectors held at once
_LEFT, _RIGHT = 512, 2048  # rows of a block: their products stay in a processor's cache

_WIDTHS = (32, 64, 128, 256)
_LEAST = 4096  # rows below which it is not worth the trouble
_SAMPLE, _PROBE = 16_384, 2048  # rows to turn by, and to try out how many pairs remain
_FULL_LOOK = 60.0  # cost of comparing a single pair, against its share in a product of blocks
_OVERHEAD = 16  # numbers' worth of going through a product, however narrow
_WORTH = 0.7  # share of the cost of full products that a bound must stay below
_HAIR = 1e-6  # for what rounding takes away from a squared length


class Found(NamedTuple):
    """Neighbours of each query, the nearest first, those of equal nearness by position.

    Where fewer were found than asked for, positions end in -1 and scores in minus infinity.
    """

    positions: Positions  # [queries, k]
    scores: Scores  # [queries, k]


def nearest(
    rows: Rows, queries: Matrix, k: int, *, allowed: NDArray[np.bool_] | None = None
) -> Found:
    """The ``k`` rows nearest to each query by cosine; all rows where there are fewer.

    Args:
        rows: what is searched.
        queries: unit vectors, one a row.
        k: how many neighbours.
        allowed: which rows may be found (default: all).
    """
    wide = min(k, len(rows) if allowed is None else int(allowed.sum()))
    positions = np.empty((len(queries), wide), np.int64)
    for at in range(0, len(queries), _LEFT):
        positions[at : at + _LEFT] = _nearest(rows, queries[at : at + _LEFT], wide, allowed)
    return ranked(rows, queries, positions)


def _nearest(rows: Rows, queries: Matrix, k: int, allowed: NDArray[np.bool_] | None) -> Positions:
    """The same in no particular order."""
    scores = np.empty((len(queries), 0), np.float32)
    positions = np.empty((len(queries), 0), np.int64)
    if not k:
        return positions
    size = min(max(_HELD // len(queries), _LEFT), 1 << 16)
    for own, block, left_out in _allowed_blocks(rows, allowed, size):
        products = queries @ block.T
        if left_out is not None:
            products[:, left_out] = -np.inf
        scores = np.hstack([scores, products])
        positions = np.hstack([positions, np.broadcast_to(own, products.shape)])
        if scores.shape[1] > k:
            best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            scores = np.take_along_axis(scores, best, axis=1)
            positions = np.take_along_axis(positions, best, axis=1)
    return positions


def _allowed_blocks(
    rows: Rows, allowed: NDArray[np.bool_] | None, size: int
) -> Iterator[tuple[Positions, Matrix, NDArray[np.bool_] | None]]:
    """Positions, vectors, and which of them are not allowed: few are picked out, most are left."""
    if allowed is not None and 2 * allowed.sum() < len(allowed):
        picked = np.flatnonzero(allowed)
        for at in range(0, len(picked), _GATHERED):
            some = picked[at : at + _GATHERED]
            yield some, rows.take(some), None
        return
    for start, block in rows.blocks(size):
        stop = start + len(block)
        yield np.arange(start, stop), block, None if allowed is None else ~allowed[start:stop]


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
        threshold: minimum cosine, less ``SLACK``.
        done: called with the number of rows that have met all others.
    """
    bound = CosineBound.fitting(rows, threshold)
    for top in range(0, len(rows), _LEFT):
        left = np.arange(top, min(top + _LEFT, len(rows)))
        for start in range(top, len(rows), _RIGHT):
            right = np.arange(start, min(start + _RIGHT, len(rows)))
            first, second, scores = close_in_block(rows, bound, left, right, threshold - SLACK)
            upper = left[first] < right[second]
            yield left[first[upper]], right[second[upper]], scores[upper]
        done(len(left))


class CosineBound:
    """Narrow stand-ins for vectors, whose products are never below the true cosines.

    Turned so that their largest variance comes first, vectors are cut after ``m`` numbers, and the
    length of what was cut off is put behind them. The product of two such rows is the product of
    what was kept plus the product of two lengths, which is never less than the product of what was
    cut (Cauchy and Schwarz). Pairs whose bound stays below a threshold need no further look; the
    others are compared in full. So nothing is lost, and on real sentences most of the work is
    saved.

    Attributes:
        vectors: the product of rows i and j is at least their cosine.
        rows: the same, to be taken in blocks.
    """

    def __init__(self, rows: Rows, basis: Matrix) -> None:
        self.vectors = np.empty((len(rows), basis.shape[1] + 1), np.float32)
        for start, block in rows.blocks(8192):
            self.vectors[start : start + len(block)] = _narrow(block, basis)
        self.rows = Rows([self.vectors], normalised=True)

    @classmethod
    def fitting(cls, rows: Rows, threshold: float) -> "CosineBound | None":
        """The bound that saves most for this threshold; None where none saves enough.

        Rows are drawn with a fixed seed, so the same rows have the same bound.
        """
        if len(rows) < _LEAST:
            return None
        draw = np.random.default_rng(0).permutation(len(rows))
        sample = rows.take(np.sort(draw[:_SAMPLE]))
        turned = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
        probe = rows.take(draw[:_PROBE])
        full = rows.dimension + _OVERHEAD
        costs: dict[int, float] = {}
        for width in (width for width in _WIDTHS if width < rows.dimension):
            narrow = _narrow(probe, turned[:, :width])
            alike = narrow @ narrow.T >= threshold
            remain = (alike.sum() - len(probe)) / (len(probe) * (len(probe) - 1))
            costs[width] = (width + 1 + _OVERHEAD) / full + _FULL_LOOK * float(remain)
        best = min(costs, key=costs.__getitem__, default=None)
        if best is None or costs[best] > _WORTH:
            return None
        return cls(rows, np.ascontiguousarray(turned[:, :best]))


def close_in_block(
    rows: Rows, bound: CosineBound | None, left: Positions, right: Positions, least: float
) -> tuple[Positions, Positions, Scores]:
    """Pairs of a row of ``left`` and one of ``right`` whose cosine reaches ``least``.

    Args:
        rows: where the positions point.
        bound: of these rows, if there is one.
        left: positions, of which the pairs hold the indices.
        right: the same of the other side.
        least: a cosine.
    """
    if bound is not None:
        products = _pick(bound.rows, left) @ _pick(bound.rows, right).T
        first, second = _above(products, least)
        if len(first) * _FULL_LOOK < products.size:
            scores = rows.similarity(left[first], right[second])
            near = scores >= least
            return first[near], second[near], scores[near]
    products = _pick(rows, left) @ _pick(rows, right).T
    first, second = _above(products, least)
    return first, second, products[first, second].astype(np.float64)


def _pick(rows: Rows, positions: Positions) -> Matrix:
    """Rows at ascending positions, without a copy where they are neighbours."""
    start, stop = int(positions[0]), int(positions[-1]) + 1
    return rows.block(start, stop) if stop - start == len(positions) else rows.take(positions)


def _above(products: Matrix, least: float) -> tuple[Positions, Positions]:
    """Rows and columns of the products that reach ``least``."""
    rows, columns = np.divmod(np.flatnonzero(products >= least), products.shape[1])
    return rows, columns


def _narrow(rows: Matrix, basis: Matrix) -> Matrix:
    kept = rows @ basis
    cut = np.sqrt(np.maximum(1 - np.einsum("nd,nd->n", kept, kept), 0) + _HAIR)
    return np.hstack([kept, cut[:, None]])
