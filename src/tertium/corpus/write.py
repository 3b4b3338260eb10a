"""Changes of an index: new files first, and last the transaction that names them.

One process writes at a time, and removes what another one did not finish.
"""

import contextlib
import itertools
import shutil
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.hnsw import EXACT_SEARCH, Graph, codes
from tertium.corpus.rows import Matrix, Rows, embed_into, store_into
from tertium.corpus.snapshot import Snapshot, map_rows, measure_recall
from tertium.corpus.store import (
    DATABASE,
    LOCK,
    OLD_MANIFEST,
    Dtype,
    Entry,
    GraphRecord,
    IndexFile,
    IndexManifest,
    SegmentRecord,
    Store,
)
from tertium.corpus.where import parse_where
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.files import check_new_folder, new_matrix, report_full_disk, sync
from tertium.models.base import Embedder
from tertium.models.passages import cut_long
from tertium.models.tokens import chunks
from tertium.progress import bar
from tertium.records.lock import lock

__all__ = ["Addition", "Updated", "Writer", "check_new_index", "new_index", "writing"]

_WINDOW = 4096
_COPIED = 1 << 16  # vectors that are copied at once
_FILES = ("vectors-*", "segment-*", "graph-*")


@dataclass(frozen=True)
class Addition:
    """What is added.

    Attributes:
        texts: any number, read once.
        model: makes the vectors.
        ids: one for every text; None counts on from the texts that were ever there.
        columns: further values of every text, by name.
        vectors: what the model made of the texts, if that is there already.
        passages: cut texts that are longer than the model reads.
        progress: False for no progress on standard error.
    """

    texts: Iterable[str]
    model: Embedder
    ids: Iterable[str] | None = None
    columns: Iterable[Mapping[str, Any]] | None = None
    vectors: NDArray[Any] | None = None
    passages: bool = True
    progress: bool | None = None


@dataclass(frozen=True)
class Updated:
    """What an update did: how many texts were new, others than before, the same; in columns only.

    Attributes:
        added: texts whose ids were not there.
        changed: texts that were encoded again.
        columns: texts that stay, with other columns.
        same: texts of which nothing changed.
    """

    added: int = 0
    changed: int = 0
    columns: int = 0
    same: int = 0


@contextlib.contextmanager
def writing(folder: Path) -> Iterator["Writer"]:
    """Have the index in ``folder`` to oneself; what is not committed is undone.

    What an earlier writer was killed at is removed first, and what this one leaves unfinished last.
    """
    from tertium.corpus.convert import convert_if_old

    convert_if_old(folder)
    Store(folder).close()
    with lock(folder / LOCK, protects=folder), closing(Store(folder, writable=True)) as store:
        manifest = store.begin()
        store.execute("COMMIT")
        _clean(folder, manifest)
        writer = Writer(store, manifest)
        try:
            with report_full_disk(folder):
                yield writer
        finally:
            _clean(folder, writer.committed)


@contextlib.contextmanager
def new_index(folder: Path, manifest: IndexManifest) -> Iterator["Writer"]:
    """Have a new index folder to oneself; it goes again if no index comes to be there."""
    check_new_index(folder)
    existed = folder.exists()
    with lock(folder / LOCK, protects=folder):
        check_new_index(folder)  # another process may have been faster
        _clean(folder, None)
        done = False
        try:
            with (
                report_full_disk(folder),
                closing(Store(folder, writable=True, create=True)) as store,
            ):
                writer = Writer(store, manifest)
                yield writer
            done = writer.changed
        finally:
            if done:
                _clean(folder, writer.committed)
            else:
                _clean(folder, None)
                (folder / LOCK).unlink(missing_ok=True)
                if not existed:
                    folder.rmdir()


def check_new_index(folder: Path) -> None:
    """Raise unless the folder is new, empty, or holds only what a killed build has left."""
    if (folder / OLD_MANIFEST).exists() or _holds_index(folder):
        raise TertiumError(
            f"{folder} holds an index already. Add to it: tertium index add {folder} FILE, or name "
            "another folder."
        )
    patterns = (LOCK, f"{DATABASE}*", *_FILES)
    ours = {path for pattern in patterns for path in folder.glob(pattern)}
    if not folder.is_dir() or any(path not in ours for path in folder.iterdir()):
        check_new_folder(folder)


def _holds_index(folder: Path) -> bool:
    if not (folder / DATABASE).is_file():
        return False
    with closing(Store(folder, writable=True)) as store:
        return not store.is_empty


def _clean(folder: Path, manifest: IndexManifest | None) -> None:
    """Remove files of ours that the manifest does not name; without one, all of them."""
    named = {name.split("/")[0] for name in manifest.files()} if manifest else set()
    patterns = _FILES if manifest else (*_FILES, f"{DATABASE}*")
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        if path.name in named:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            with contextlib.suppress(PermissionError):  # open elsewhere, on some systems
                path.unlink(missing_ok=True)


class Writer:
    """Changes one index; each method is one transaction.

    Args:
        store: a writable connection, by whoever holds the lock.
        manifest: what the index holds; of a new one, what it begins with.

    Attributes:
        committed: the manifest that counts.
        changed: whether anything was committed.
    """

    def __init__(self, store: Store, manifest: IndexManifest) -> None:
        self._store = store
        self._folder = store.folder
        self._files = 0  # that were made since the last commit
        self.committed = self._after = manifest
        self.changed = False

    def add(self, addition: Addition) -> int:
        """Add texts, and say how many."""
        with self._changing():
            before, start = self.committed, self._start
            after = self._insert(before, addition, start)
            count = after.count - before.count
            if not count:
                raise TertiumError("There are no texts to index.")
            self._after = self._encode(before, after, addition, f"fields.number >= {start}")
            return count

    def update(self, addition: Addition) -> Updated:
        """Replace texts by their ids, encode those that changed, and add those that are new."""
        if addition.ids is None:
            raise TertiumError("An update needs ids: they say which text each one replaces.")
        with self._changing() as store:
            before = after = self.committed
            start = self._start
            counts = {"added": 0, "changed": 0, "columns": 0, "same": 0}
            seen: dict[str, int] = {}
            for window in chunks(_entries(addition, start), _WINDOW):
                known = store.by_ids(after, [entry.id for entry in window])
                after = after.model_copy(update={"columns": self._columns(after, window)})
                new: list[Entry] = []
                changed: list[tuple[Entry, Entry]] = []
                for entry in window:
                    row = len(seen) + 1
                    if not entry.text.strip():
                        raise TertiumError(
                            f"Text {row:,}, with the id '{entry.id}', is empty. Delete it instead."
                        )
                    if seen.setdefault(entry.id, row) != row:
                        raise _twice(entry.id, seen[entry.id], row)
                    old = known.get(entry.id)
                    if old is None:
                        new.append(entry)
                        continue
                    columns = _other_columns(entry, old)
                    store.set_columns(old.number, columns)
                    if entry.text != old.text:
                        changed.append((entry._replace(number=old.number), old))
                    else:
                        counts["columns" if columns else "same"] += 1
                after = self._place(after, new, addition, start)
                start += len(new)
                placed = self._cut([entry for entry, _ in changed], after, addition)
                for entry, (_, old) in zip(placed, changed, strict=True):
                    store.replace(entry, old)
                dead = sum(old.passages for _, old in changed)
                after = _grown(after, placed, texts=0, dead=dead)
                counts["added"] += len(new)
                counts["changed"] += len(changed)
            if after.rows > before.rows:
                after = self._encode(before, after, addition, f"fields.first >= {before.rows}")
            self._after = after
            return Updated(**counts)

    def set_columns(self, values: Mapping[str, Any], *, where: str) -> int:
        """Write columns of the texts that meet a filter, and say how many these are."""
        with self._changing() as store:
            columns = store.add_columns(self.committed.columns, _names(values))
            after = self.committed.model_copy(update={"columns": columns})
            numbers = [entry.number for entry in self._found(after, where)]
            for number in numbers:
                store.set_columns(number, _named(values))
            self._after = after
            return len(numbers)

    def delete(self, ids: Sequence[str] | None = None, *, where: str | None = None) -> list[str]:
        """Delete texts by id or by a filter, and give the ids of those that were deleted."""
        with self._changing() as store:
            found = (
                list(self._found(self.committed, where))
                if ids is None
                else list(store.by_ids(self.committed, ids).values())
            )
            store.delete(found)
            dead = sum(entry.passages for entry in found)
            self._after = _grown(self.committed, [], texts=-len(found), dead=dead)
            return [entry.id for entry in found]

    def compact(self, *, progress: bool | None = None) -> int:
        """Remove the vectors of deleted texts from the disk, and say how many bytes that saved."""
        size = self._size()
        with self._changing() as store:
            before = self.committed
            after = before
            if before.dead or len(before.segments) > 1:
                after = self._rewritten(before, progress=progress)
            store.execute("INSERT INTO words (words) VALUES ('optimize')")
            self._after = after
        _clean(self._folder, self.committed)
        self._store.execute("VACUUM")
        return size - self._size()

    def _rewritten(self, before: IndexManifest, *, progress: bool | None) -> IndexManifest:
        """All living vectors in one new file, and a new graph over them."""
        rows, mask = map_rows(self._folder, before), self._store.mask(before, None)
        alive = np.arange(before.rows) if mask is None else np.flatnonzero(mask)
        moved = np.cumsum(np.ones(before.rows) if mask is None else mask).astype(np.int64) - 1
        places = self._store.execute("SELECT first, number FROM fields ORDER BY first")
        self._store.execute_many(
            "UPDATE fields SET first = ? WHERE number = ?",
            ((int(moved[first]), number) for first, number in places),  # never beyond the next
        )
        self._store.execute("DELETE FROM dead")
        segments: tuple[SegmentRecord, ...] = ()
        if len(alive):
            dtype = np.float32 if before.dtype is Dtype.FLOAT32 else np.int8
            matrix = self._matrix(len(alive), dtype)
            for start in range(0, len(alive), _COPIED):
                part = rows.take(alive[start : start + _COPIED])
                matrix[start : start + len(part)] = part if dtype is np.float32 else codes(part)
            segments = (self._segment(matrix),)
        after = before.model_copy(
            update={
                "rows": len(alive),
                "dead": 0,
                "segments": segments,
                "graph": None,
                "recall": None,
                "passages": len(alive) > before.count,
            }
        )
        after = self._extend_graph(after, progress=progress)
        recall = None if after.graph is None else self._recall(after, None)
        if before.dtype is not Dtype.FLOAT32 and recall is None:
            recall = before.recall  # measured when the vectors of the model were at hand
        return after.model_copy(update={"recall": recall})

    def _insert(self, manifest: IndexManifest, addition: Addition, start: int) -> IndexManifest:
        """Write texts, whose vectors will follow those that are there."""
        blank = 0
        for window in chunks(_entries(addition, start), _WINDOW):
            blank += sum(not entry.text.strip() for entry in window)
            columns = self._columns(manifest, window)
            manifest = manifest.model_copy(update={"columns": columns})
            manifest = self._place(manifest, window, addition, start)
            start += len(window)
        if blank:
            which = "1 text is" if blank == 1 else f"{blank:,} texts are"
            warnings.warn(
                f"{which} empty. Any query can find an empty text: leave it out.",
                TertiumWarning,
                stacklevel=2,
            )
        return manifest

    def _place(
        self, manifest: IndexManifest, window: Sequence[Entry], addition: Addition, start: int
    ) -> IndexManifest:
        numbered = [entry._replace(number=start + at) for at, entry in enumerate(window)]
        placed = self._cut(numbered, manifest, addition)
        try:
            self._store.insert(placed, manifest.columns)
        except sqlite3.IntegrityError as error:
            raise self._duplicate(placed) from error
        return _grown(manifest, placed, texts=len(placed))

    def _cut(
        self, entries: Sequence[Entry], manifest: IndexManifest, addition: Addition
    ) -> list[Entry]:
        """Entries with their passages, in rows behind all others."""
        texts = [entry.text for entry in entries]
        prompt = manifest.prompts.get("document")
        wanted = addition.passages and addition.vectors is None
        spans = cut_long(addition.model, texts, prompt=prompt) if wanted else [[] for _ in texts]
        found, row = list[Entry](), manifest.rows
        for entry, cuts in zip(entries, spans, strict=True):
            count = max(len(cuts), 1)
            found.append(entry._replace(first=row, passages=count, cuts=cuts or None))
            row += count
        return found

    def _duplicate(self, entries: Sequence[Entry]) -> TertiumError:
        """Which id is not new."""
        seen: dict[str, int] = {}
        for entry in entries:
            if entry.id in seen:
                return _twice(entry.id, seen[entry.id], entry.number - self._start + 1)
            seen[entry.id] = entry.number - self._start + 1
        plain = self.committed.model_copy(update={"columns": ()})
        name, known = next(iter(self._store.by_ids(plain, list(seen)).items()))
        if known.number >= self._start:
            return _twice(name, known.number - self._start + 1, seen[name])
        return TertiumError(
            f"The id '{name}' of text {seen[name]} is in {self._folder} already. Give every text "
            "an id of its own, or leave ids out to have texts numbered. To replace texts: tertium "
            "index update"
        )

    def _columns(self, manifest: IndexManifest, entries: Sequence[Entry]) -> tuple[str, ...]:
        given = (item for entry in entries for item in entry.columns.items())
        names = [name for name, value in given if value is not None]
        return self._store.add_columns(manifest.columns, names)

    def _found(self, manifest: IndexManifest, where: str | None) -> Iterator[Entry]:
        if where is None:
            raise TertiumError("Say which texts: by their ids, or by a filter.")
        filter_ = parse_where(where, manifest.columns)
        return self._store.entries(manifest, filter_.sql, filter_.values)

    def _encode(
        self, before: IndexManifest, after: IndexManifest, addition: Addition, condition: str
    ) -> IndexManifest:
        """Make the vectors of new rows; join segments, extend the graph, and measure it."""
        count = after.rows - before.rows
        if after.rows - before.covered >= EXACT_SEARCH:  # before hours of encoding
            require("search", purpose="An index of this size", packages=("usearch",))
        matrix = self._matrix(count, np.float32, kept=before.dtype is Dtype.FLOAT32)
        model, texts = addition.model, self._passages(after, condition)
        prompt = before.prompts.get("document")
        if addition.vectors is None:
            progress = addition.progress
            embed_into(matrix, model, texts, total=count, prompt=prompt, progress=progress)
        else:
            store_into(matrix, model, texts, addition.vectors, prompt=prompt)
        truth: Matrix = matrix
        if before.dtype is not Dtype.FLOAT32:
            matrix.flush()
            matrix = self._matrix(count, np.int8)
            for start in range(0, count, _COPIED):
                matrix[start : start + _COPIED] = codes(truth[start : start + _COPIED])
        segments = self._joined(before.segments, self._segment(matrix))
        after = after.model_copy(update={"segments": segments})
        after = self._extend_graph(after, progress=addition.progress)
        if not before.rows or after.graph != before.graph:
            after = after.model_copy(update={"recall": self._recall(after, truth)})
        return after

    def _passages(self, manifest: IndexManifest, condition: str) -> Iterator[str]:
        for entry in self._store.entries(manifest, condition):
            for row in range(entry.first, entry.first + entry.passages):
                yield entry.passage(row)

    def _name(self, what: str, ending: str) -> Path:
        self._files += 1
        return self._folder / f"{what}-{self.committed.next + self._files - 1:06}{ending}"

    def _matrix(self, count: int, dtype: Any, *, kept: bool = True) -> Any:
        path = self._name("vectors", ".npy" if kept else ".float32.npy")
        return new_matrix(path, dtype, (count, self.committed.model.dimension))

    def _segment(self, matrix: Any) -> SegmentRecord:
        """Bring a file of vectors to the disk, and describe it."""
        matrix.flush()
        path = Path(matrix.filename)
        file = IndexFile.of(path, durable=True)
        return SegmentRecord(name=path.name, count=len(matrix), file=file)

    def _joined(
        self, earlier: Sequence[SegmentRecord], new: SegmentRecord
    ) -> tuple[SegmentRecord, ...]:
        """All segments; the new one takes in those before it that are not larger.

        So there are few however often a little is added, and each vector is copied few times.
        """
        kept, taken = list(earlier), [new]
        while kept and kept[-1].count <= sum(segment.count for segment in taken):
            taken.insert(0, kept.pop())
        if len(taken) == 1:
            return (*kept, new)
        parts = [np.load(self._folder / segment.name, mmap_mode="r") for segment in taken]
        matrix = self._matrix(sum(map(len, parts)), parts[0].dtype)
        at = 0
        for part in parts:
            for start in range(0, len(part), _COPIED):
                block = part[start : start + _COPIED]
                matrix[at : at + len(block)] = block
                at += len(block)
        return (*kept, self._segment(matrix))

    def _extend_graph(self, manifest: IndexManifest, *, progress: bool | None) -> IndexManifest:
        """Take vectors into the graph when enough of them wait."""
        waiting = manifest.rows - manifest.covered
        if waiting < EXACT_SEARCH:
            return manifest
        dimension = manifest.model.dimension
        graph = Graph(dimension)
        if manifest.graph is not None:
            graph = Graph.open(self._folder / manifest.graph.name, dimension, writable=True)
        rows = map_rows(self._folder, manifest)
        with bar(total=waiting, label="graph", unit="text", show=progress) as shown:
            for start in range(len(graph), len(rows), _WINDOW):
                block = rows.block(start, start + _WINDOW)
                graph.add(start, block, threads=0)
                shown.update(len(block))
        path = self._name("graph", ".usearch")
        graph.save(path)
        file = IndexFile.of(path, durable=True)
        record = GraphRecord(name=path.name, count=len(graph), file=file)
        return manifest.model_copy(update={"graph": record})

    def _recall(self, manifest: IndexManifest, truth: Matrix | None) -> Any:
        """How much the index finds of what an exact search of the best vectors at hand finds."""
        if manifest.graph is None and manifest.dtype is Dtype.FLOAT32:
            return None
        snapshot = Snapshot(self._store, manifest)
        whole = truth is not None and len(truth) == manifest.rows
        rows = Rows([truth], normalised=True) if whole and truth is not None else snapshot.rows
        against = Dtype.FLOAT32 if whole else manifest.dtype
        return measure_recall(snapshot, rows, against=against)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Store]:
        """One transaction; ``_after`` is the manifest that it ends with."""
        self._files, self._after = 0, self.committed
        with self._store.transaction():
            if not self.changed and self._store.is_empty:
                self._store.create()
            self._start = self._store.next_number()
            yield self._store
            numbers = {"next": self.committed.next + self._files}
            numbers["generation"] = self.committed.generation + 1
            self._after = self._after.model_copy(update=numbers)
            self._store.write_manifest(self._after)
            sync(self._folder)
        self.committed, self.changed = self._after, True

    def _size(self) -> int:
        return self._store.size + sum(each.size for each in self.committed.files().values())


def _grown(
    manifest: IndexManifest, placed: Sequence[Entry], *, texts: int, dead: int = 0
) -> IndexManifest:
    rows = sum(entry.passages for entry in placed)
    return manifest.model_copy(
        update={
            "count": manifest.count + texts,
            "rows": manifest.rows + rows,
            "dead": manifest.dead + dead,
            "passages": manifest.passages or rows > len(placed),
        }
    )


def _entries(addition: Addition, start: int) -> Iterator[Entry]:
    """Texts with their ids and columns; without ids they are numbered from ``start`` on."""
    texts = (_checked(text, row) for row, text in enumerate(addition.texts))
    names = iter(itertools.count(start) if addition.ids is None else addition.ids)
    values = iter(addition.columns or itertools.repeat({}))
    end: Any = object()
    for text in texts:
        name, row = next(names, end), next(values, end)
        if name is end:
            raise TertiumError("There must be as many ids as texts.")
        if row is end:
            raise TertiumError("There must be as many rows of columns as texts.")
        yield Entry(0, str(name), text, 0, 1, None, _named(row))
    if addition.ids is not None and next(names, end) is not end:
        raise TertiumError("There must be as many ids as texts.")


def _names(values: Iterable[str]) -> list[str]:
    return [name.strip().lower() for name in values]


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns by their names as files have them, without regard to case."""
    return {name.strip().lower(): value for name, value in values.items()}


def _other_columns(entry: Entry, old: Entry) -> dict[str, Any]:
    """Columns that differ from those of before; None empties one, and what is not named stays."""
    return {name: value for name, value in entry.columns.items() if value != old.columns.get(name)}


def _checked(text: str, row: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text {row} is {type(text).__name__}, not str")
    return text


def _twice(name: str, first: int, second: int) -> TertiumError:
    return TertiumError(
        f"The id '{name}' occurs twice, for texts {first} and {second}. Give every text an id of "
        "its own."
    )
