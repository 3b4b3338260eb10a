"""The index of a worker, which may grow, be damaged or be replaced while it is served."""

import contextlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tertium.corpus import Hit, Index, WhereError
from tertium.errors import TertiumError
from tertium.records.decision import VERDICT, verdict_rows
from tertium.serve.batching import Matrix
from tertium.serve.errors import APIError, where

__all__ = ["HostedIndex", "unsearchable"]


class _Rebuilt(TertiumError):
    """The index was rebuilt and must be reopened."""


class HostedIndex:
    """The index of a worker: added texts are found, and damage only disables search.

    Args:
        folder: the index.
        open_index: opens it, with its model.
        retry: seconds between two checks of a damaged index.

    Attributes:
        fault: why it cannot be searched, or None.
    """

    def __init__(self, folder: Path, open_index: Callable[[Path], Index], *, retry: float) -> None:
        self._folder = folder
        self._open_index = open_index
        self._retry = retry
        self._index: Index | None = None
        self._seen: object = None  # contents of the folder when it failed
        self._looked = -math.inf
        self.fault: str | None = None
        self.open()

    def about(self) -> dict[str, Any]:
        """Its description, or why it cannot be searched."""
        index = self._index
        if index is None:
            return {"index": None, "fault": self.fault}
        name, dimension = index.manifest.model.name, index.model.dimension
        decision = index.model.cosine_decision
        about = {"name": name, "texts": len(index), "dimension": dimension}
        about["decision"] = None if decision is None else decision.to_json("cosine")
        return {"index": about, "fault": None}

    def open(self) -> None:
        """Open it, or record why that failed."""
        try:
            self._index = self._open_index(self._folder)
            self.fault = None
        except Exception as error:
            self._give_up(error)

    def is_worth_opening(self, now: float) -> bool:
        """Whether it failed and its folder has changed since.

        Args:
            now: seconds by any clock; the folder is checked at most every ``retry`` seconds.
        """
        if self.fault is None or now - self._looked < self._retry:
            return False
        self._looked = now
        return _contents(self._folder) != self._seen

    def search(
        self,
        rows: Matrix,
        *,
        top_k: int,
        threshold: float | None,
        where: str | None,
        words: Sequence[str] | None,
    ) -> list[list[dict[str, Any]]]:
        """The nearest texts to each row, best first; a hybrid search if ``words`` are given."""
        if self._index is None:
            raise unsearchable()
        try:
            self._refresh(self._index)
            found = self._index.search_vectors(
                rows, top_k=top_k, threshold=threshold, where=where, words=words
            )
        except WhereError as error:
            raise APIError(400, "invalid_filter", str(error), param="where") from None
        except Exception as error:
            self._give_up(error)
            raise unsearchable() from None
        return [self._shown(hits) for hits in found]

    def _shown(self, hits: Sequence[Hit]) -> list[dict[str, Any]]:
        assert self._index is not None
        said = verdict_rows(self._index.model.cosine_decision, [hit.cosine for hit in hits])
        return [
            {
                **{"id": hit.id, "text": hit.text, "score": hit.score, "cosine": hit.cosine},
                **{"columns": dict(hit.columns), "passage": hit.passage},
                **dict(zip(VERDICT, verdict, strict=True)),
            }
            for hit, verdict in zip(hits, said, strict=True)
        ]

    @property
    def prompt(self) -> str:
        """The model's prompt for queries."""
        return "" if self._index is None else self._index.manifest.prompts.get("query", "")

    def _refresh(self, index: Index) -> None:
        before = index.manifest.model.fingerprint
        index.refresh()
        if index.manifest.model.fingerprint != before:
            raise _Rebuilt(f"{index.folder} was rebuilt with another model.")

    def _give_up(self, error: Exception) -> None:
        self._index = None
        self._seen = None if isinstance(error, _Rebuilt) else _contents(self._folder)
        known = isinstance(error, TertiumError | OSError)
        self.fault = str(error) if known else where(error)


def unsearchable() -> APIError:
    """The answer to a search while the index cannot be searched."""
    return APIError(503, "index_unavailable", "The index cannot be searched at the moment.")


def _contents(folder: Path) -> object:
    """The files of a folder with their sizes, times and inodes, to detect changes.

    SQLite's temporary files are ignored.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(("-wal", "-shm")):
            continue
        with contextlib.suppress(OSError):
            about = path.stat()
            found.append((str(path), about.st_size, about.st_mtime_ns, about.st_ino))
    return found
