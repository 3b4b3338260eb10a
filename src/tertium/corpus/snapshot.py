"""An index as one manifest describes it, ready to be searched; later changes do not touch it."""

from functools import cached_property
from pathlib import Path

import numpy as np

from tertium.corpus.exact import Found, nearest, ranked
from tertium.corpus.hnsw import Graph
from tertium.corpus.manifest import IndexManifest, check_files, read_index_manifest
from tertium.corpus.rows import Matrix, Rows
from tertium.corpus.segments import Entry, Segment, damaged
from tertium.errors import TertiumError

__all__ = ["Snapshot", "open_snapshot"]

_MORE = 16  # candidates beyond those asked for, since a graph knows vectors only roughly


class Snapshot:
    """The texts and vectors of all segments, and the graph over the first of them."""

    def __init__(self, folder: Path, manifest: IndexManifest) -> None:
        self.folder = folder
        self.manifest = manifest
        if not manifest.segments:
            raise damaged(folder, "its manifest names no segments")
        self.segments = [Segment(folder / record.name) for record in manifest.segments]
        self.rows = Rows([segment.vectors for segment in self.segments], normalised=True)
        self._starts = np.cumsum([0, *map(len, self.segments)])
        if len(self.rows) != manifest.count or self.rows.dimension != manifest.model.dimension:
            raise damaged(folder, "its segments do not hold what its manifest says")
        record = manifest.graph
        self._covered = 0 if record is None else record.count
        self._graph = (
            None if record is None else Graph.open(folder / record.name, self.rows.dimension)
        )

    def __len__(self) -> int:
        return self.manifest.count

    @cached_property
    def _rest(self) -> Rows | None:
        """Vectors that are in no graph, in memory."""
        if self._covered == len(self):
            return None
        return Rows([self.rows.block(self._covered, len(self))], normalised=True)

    def search(self, queries: Matrix, k: int) -> Found:
        """The ``k`` texts nearest to each unit vector; all of them where there are fewer."""
        parts = []
        if self._graph is not None:
            parts.append(self._graph.search(queries, max(2 * k, k + _MORE)))
        if self._rest is not None:
            parts.append(nearest(self._rest, queries, k).positions + self._covered)
        found = ranked(self.rows, queries, np.concatenate(parts, axis=1))
        return Found(found.positions[:, :k], found.scores[:, :k])

    def entry(self, position: int) -> Entry:
        """The text at a position."""
        home = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self.segments[home].entry(position - int(self._starts[home]))

    def hashes(self) -> np.ndarray:
        """A hash of every id, by position."""
        return np.concatenate([segment.ids for segment in self.segments])


def open_snapshot(folder: Path, *, contents: bool = False) -> Snapshot:
    """Open the index in ``folder`` as it is now, also while other processes add to it.

    Whoever adds removes the files that its new manifest no longer names; if one of them was still
    to be read, it begins again with that manifest. With ``contents``, every file is read whole.
    """
    intact: set[str] = set()  # read whole; an index never uses a name twice
    while True:
        manifest = read_index_manifest(folder)
        try:
            check_files(folder, manifest, contents=contents, intact=intact)
            return Snapshot(folder, manifest)
        except FileNotFoundError as missing:
            if read_index_manifest(folder) == manifest:
                raise TertiumError(
                    f"{missing.filename} is missing. Restore it from a copy, or build the index "
                    "again."
                ) from missing
