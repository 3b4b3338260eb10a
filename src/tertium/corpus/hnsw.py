"""When all texts are compared with all others, and when a graph names the candidates (HNSW).

This is the one place that knows usearch. The graph holds vectors as whole numbers from -127 to
127, a quarter of their size. It only names candidates, which are scored again with the vectors.
"""

import errno
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.rows import Positions
from tertium.errors import TertiumError, require
from tertium.models.base import Embedder

__all__ = ["EXACT_PAIRS", "EXACT_SEARCH", "EXPANSION", "Graph", "Method"]
__all__ += ["check_threshold", "chosen_threshold", "codes"]

EXACT_SEARCH = 20_000  # vectors up to which an index is searched exactly
EXACT_PAIRS = 1_000_000  # texts up to which mining and cleaning compare all with all

_CONNECTIVITY = 16  # links of a node
_MANY = 16  # queries that are worth a second thread
_FIRST = 1024  # nodes that are added one by one: in a small graph two at a time can miss each other
EXPANSION = 128  # candidates that are looked at while adding and while searching


class Method(StrEnum):
    """How neighbours are found."""

    AUTO = "auto"  # exact up to EXACT_PAIRS texts, beyond by a graph
    EXACT = "exact"  # every pair is looked at
    HNSW = "hnsw"  # a graph names candidates; what it overlooks is not found
    MINHASH = "minhash"  # only texts that share many runs of characters are compared

    def chosen(self, count: int) -> "Method":
        """What ``auto`` means for so many texts.

        >>> Method.AUTO.chosen(1000), Method.AUTO.chosen(10**7), Method.HNSW.chosen(3)
        (<Method.EXACT: 'exact'>, <Method.HNSW: 'hnsw'>, <Method.HNSW: 'hnsw'>)
        """
        if self is not Method.AUTO:
            return self
        return Method.EXACT if count <= EXACT_PAIRS else Method.HNSW


def check_threshold(threshold: float) -> None:
    """Raise unless ``threshold`` can be a cosine."""
    if not -1 <= threshold <= 1:
        raise TertiumError(f"The threshold is a cosine, from -1 to 1, not {threshold:g}.")


def chosen_threshold(given: float | None, source: object, *, usual: float) -> float:
    """The cosine that was given, else that of the model's decision, else the usual one."""
    decision = source.cosine_decision if isinstance(source, Embedder) else None
    fitted = None if decision is None else decision.rule("cosine").threshold
    chosen = given if given is not None else usual if fitted is None else fitted
    check_threshold(chosen)
    return chosen


def codes(rows: NDArray[Any]) -> NDArray[np.int8]:
    """Rows as whole numbers, each with a scale of its own, which cosines do not see.

    >>> codes(np.array([[0.2, -0.1], [0.0, 0.0]])).tolist()
    [[127, -64], [0, 0]]
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.rint(rows * (127 / np.where(largest > 0, largest, 1))).astype(np.int8)


class Graph:
    """Positions of vectors, found by walking from neighbour to neighbour."""

    def __init__(self, dimension: int) -> None:
        require("search", purpose="Approximate search", packages=("usearch",))
        from usearch.index import Index

        self._index = Index(
            ndim=dimension,
            metric="cos",
            dtype="i8",
            connectivity=_CONNECTIVITY,
            expansion_add=EXPANSION,
            expansion_search=EXPANSION,
        )

    @classmethod
    def open(cls, path: Path, dimension: int, *, writable: bool = False) -> "Graph":
        """Map a saved graph into memory, or with ``writable`` read it whole."""
        graph = cls(dimension)
        try:
            (graph._index.load if writable else graph._index.view)(path)
        except (RuntimeError, ValueError, OSError) as error:
            if not path.exists():  # another process has just replaced it
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from error
            raise TertiumError(
                f"{path} is damaged ({error}). Restore it from a copy, or build the index again."
            ) from error
        return graph

    def __len__(self) -> int:
        return len(self._index)

    def add(self, start: int, rows: NDArray[Any], *, threads: int) -> None:
        """Add rows under the positions from ``start`` on.

        Args:
            start: position of the first row.
            rows: vectors.
            threads: 1 makes the same graph every time, 0 uses all cores.
        """
        keys = np.arange(start, start + len(rows), dtype=np.uint64)
        alone = max(0, min(len(rows), _FIRST - len(self)))
        for part, workers in ((slice(alone), 1), (slice(alone, None), threads)):
            if len(keys[part]):
                self._index.add(keys[part], codes(rows[part]), threads=workers)

    def search(self, queries: NDArray[Any], k: int) -> Positions:
        """Candidates of each query, about the nearest ``k``; -1 where there are fewer."""
        from usearch.index import BatchMatches

        wide = min(k, len(self))
        keys = np.full((len(queries), wide), -1, np.int64)
        if not wide or not len(queries):
            return keys
        threads = 1 if len(queries) < _MANY else 0
        found = self._index.search(codes(queries), wide, threads=threads)
        if isinstance(found, BatchMatches):
            here = np.arange(wide) < np.asarray(found.counts)[:, None]
            keys[here] = np.asarray(found.keys).astype(np.int64)[here]
        else:  # of a single query, as many as there are
            keys[0, : len(found.keys)] = found.keys
        return keys

    def save(self, path: Path) -> None:
        """Write the graph to a file."""
        self._index.save(path)
