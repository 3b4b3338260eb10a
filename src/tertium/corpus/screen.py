"""Narrow stand-ins for vectors, whose products are never below the true cosines.

Turned so that their largest variance comes first, vectors are cut after ``m`` numbers, and the
length of what was cut off is put behind them. The product of two such rows is the product of what
was kept plus the product of two lengths, which is never less than the product of what was cut
(Cauchy and Schwarz). Pairs whose bound stays below a threshold need no further look; the others are
compared in full. So nothing is lost, and on real sentences most of the work is.
"""

import numpy as np

from tertium.corpus.rows import Matrix, Positions, Rows, Scores

__all__ = ["Screen", "close_in_block"]

_WIDTHS = (32, 64, 128, 256)
_LEAST = 4096  # rows below which it is not worth the trouble
_SAMPLE, _PROBE = 16_384, 2048  # rows to turn by, and to try out how many pairs remain
_FULL_LOOK = 60.0  # cost of comparing a pair by itself, against its share in a product of blocks
_OVERHEAD = 16  # numbers' worth of going through a product, however narrow
_WORTH = 0.7  # share of the cost of full products that a screen must stay below
_HAIR = 1e-6  # for what rounding takes away from a squared length


class Screen:
    """Bounds on the cosines of rows.

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
    def fitting(cls, rows: Rows, threshold: float) -> "Screen | None":
        """The screen that saves most for this threshold; None where none saves enough.

        Rows are drawn with a fixed seed, so the same rows have the same screen.
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
    rows: Rows, screen: Screen | None, left: Positions, right: Positions, least: float
) -> tuple[Positions, Positions, Scores]:
    """Pairs of a row of ``left`` and one of ``right`` whose cosine reaches ``least``.

    Args:
        rows: where the positions point.
        screen: of these rows, if there is one.
        left: positions, of which the pairs hold the indices.
        right: the same of the other side.
        least: a cosine.
    """
    if screen is not None:
        products = _pick(screen.rows, left) @ _pick(screen.rows, right).T
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
