"""Writing to an index: new files first, and last the manifest that names them.

One process writes at a time, and removes what another one did not finish.
"""

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.hnsw import EXACT_SEARCH, Graph, codes
from tertium.corpus.manifest import (
    MANIFEST,
    Dtype,
    GraphRecord,
    IndexFile,
    IndexManifest,
    Recall,
    SegmentRecord,
    read_index_manifest,
    write_index_manifest,
)
from tertium.corpus.rows import Matrix, Rows, embed_into, store_into
from tertium.corpus.segments import (
    VECTORS,
    Entry,
    Segment,
    Snapshot,
    StoredTexts,
    measure_recall,
    merge_segments,
    record_segment,
    write_texts,
)
from tertium.errors import TertiumError, require
from tertium.files import check_new_folder, new_matrix, report_full_disk
from tertium.models.base import Embedder
from tertium.progress import bar
from tertium.records.lock import lock

__all__ = ["Addition", "append", "check_new_index", "clean", "new_index", "writing"]

_WINDOW = 8192
LOCK = ".lock"
_OURS = (LOCK, f".{MANIFEST}.*", "segment-*", "graph-*")


@dataclass(frozen=True)
class Addition:
    """What is added.

    Attributes:
        texts: any number, read once.
        model: makes the vectors.
        ids: one for every text; None counts on from the texts that are there.
        vectors: what the model made of the texts, if that is there already.
        progress: False for no progress on standard error.
    """

    texts: Iterable[str]
    model: Embedder
    ids: Iterable[str] | None = None
    vectors: NDArray[Any] | None = None
    progress: bool | None = None


def append(folder: Path, manifest: IndexManifest, addition: Addition) -> IndexManifest:
    """Add texts to the index that ``manifest`` describes, and give the manifest that then counts.

    The caller holds the lock of the folder, and removes what no manifest names.
    """
    before = Snapshot(folder, manifest) if manifest.count else None
    new = folder / f"segment-{manifest.next:06}"
    count = write_texts(new, entries(addition.texts, addition.ids, start=manifest.count + 1))
    if not count:
        raise TertiumError("There are no texts to index.")
    texts = StoredTexts(new)
    check_ids(texts, before)
    if manifest.count + count - _covered(manifest) >= EXACT_SEARCH:  # before hours of encoding
        require("search", purpose="An index of this size", packages=("usearch",))
    truth = _write_vectors(new, texts, manifest, addition)
    segments = _merged(folder, manifest, new)
    after = manifest.model_copy(
        update={"count": manifest.count + count, "segments": segments, "next": manifest.next + 2}
    )
    after = _extend_graph(folder, after, progress=addition.progress)
    if before is None or after.graph != manifest.graph:
        after = after.model_copy(update={"recall": _recall(folder, after, before, truth)})
    write_index_manifest(folder, after)
    return after


def _recall(
    folder: Path, manifest: IndexManifest, before: Snapshot | None, truth: Matrix
) -> Recall | None:
    """How much the index finds of what an exact search of the best vectors at hand finds."""
    if manifest.graph is None and manifest.dtype is Dtype.FLOAT32:
        return None
    earlier = [] if before is None else [segment.vectors for segment in before.segments]
    rows = Rows([*earlier, truth], normalised=True)
    against = manifest.dtype if earlier else Dtype.FLOAT32
    return measure_recall(Snapshot(folder, manifest), rows, against=against)


def _covered(manifest: IndexManifest) -> int:
    return 0 if manifest.graph is None else manifest.graph.count


def _write_vectors(
    segment: Path, texts: StoredTexts, manifest: IndexManifest, addition: Addition
) -> Matrix:
    """Write ``vectors.npy``, and give the vectors as the model made them, mapped from a file."""
    shape = (len(texts), manifest.model.dimension)
    exact = manifest.dtype is Dtype.FLOAT32
    path = segment / VECTORS if exact else segment.with_suffix(".float32.npy")
    matrix: Matrix = new_matrix(path, np.float32, shape)
    stored = (texts.entry(at).text for at in range(len(texts)))
    if addition.vectors is None:
        embed_into(matrix, addition.model, stored, total=len(texts), progress=addition.progress)
    else:
        store_into(matrix, addition.model, stored, addition.vectors)
    matrix.flush()  # type: ignore[attr-defined]
    if not exact:
        small = new_matrix(segment / VECTORS, np.int8, shape)
        for start in range(0, len(matrix), _WINDOW):
            small[start : start + _WINDOW] = codes(matrix[start : start + _WINDOW])
        small.flush()
    return matrix


def _merged(folder: Path, manifest: IndexManifest, new: Path) -> tuple[SegmentRecord, ...]:
    """All segments; the new one takes in those before it that are not larger.

    So there are few however often a little is added, and each text is copied few times.
    """
    record = record_segment(new)
    earlier, together = list(manifest.segments), record.count
    taken: list[str] = []
    while earlier and earlier[-1].count <= together:
        last = earlier.pop()
        taken.insert(0, last.name)
        together += last.count
    if not taken:
        return (*earlier, record)
    target = folder / f"segment-{manifest.next + 1:06}"
    parts = [folder / name for name in (*taken, new.name)]
    return (*earlier, merge_segments(target, parts))


def _extend_graph(folder: Path, manifest: IndexManifest, *, progress: bool | None) -> IndexManifest:
    """Take texts into the graph when enough of them wait."""
    waiting = manifest.count - _covered(manifest)
    if waiting < EXACT_SEARCH:
        return manifest
    dimension = manifest.model.dimension
    graph = Graph(dimension)
    if manifest.graph is not None:
        graph = Graph.open(folder / manifest.graph.name, dimension, writable=True)
    rows = Rows(
        [Segment(folder / record.name).vectors for record in manifest.segments], normalised=True
    )
    with bar(total=waiting, label="graph", unit="text", show=progress) as shown:
        for start in range(len(graph), len(rows), _WINDOW):
            block = rows.block(start, start + _WINDOW)
            graph.add(start, block, threads=0)
            shown.update(len(block))
    path = folder / f"graph-{manifest.next:06}.usearch"
    graph.save(path)
    record = GraphRecord(name=path.name, count=len(graph), file=IndexFile.of(path, durable=True))
    return manifest.model_copy(update={"graph": record, "next": manifest.next + 1})


def entries(texts: Iterable[str], ids: Iterable[str] | None, *, start: int) -> Iterator[Entry]:
    """Texts with their ids; without ids they are numbered from ``start`` on.

    >>> [entry.id for entry in entries(["a", "b"], None, start=8)]
    ['8', '9']
    """
    if ids is None:
        for number, text in enumerate(texts, start):
            yield Entry(str(number), _checked(text, number - start))
        return
    try:
        for row, (name, text) in enumerate(zip(ids, texts, strict=True)):
            yield Entry(str(name), _checked(text, row))
    except ValueError as error:
        raise TertiumError("There must be as many ids as texts.") from error


def check_ids(new: StoredTexts, before: Snapshot | None) -> None:
    """Raise if two of the new texts have the same id, or if one has that of a text before.

    Hashes find the candidates, the ids themselves decide.
    """
    order = np.argsort(new.ids, kind="stable")
    same = np.flatnonzero(new.ids[order][1:] == new.ids[order][:-1])
    for first, second in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
        if new.entry(first).id == new.entry(second).id:
            raise TertiumError(
                f"The id '{new.entry(first).id}' occurs twice, for texts {first + 1} and "
                f"{second + 1}. Give every text an id of its own."
            )
    if before is None:
        return
    known = before.hashes()
    for at in np.flatnonzero(np.isin(new.ids, known)).tolist():
        name = new.entry(at).id
        for position in np.flatnonzero(known == new.ids[at]).tolist():
            if before.entry(position).id == name:
                raise TertiumError(
                    f"The id '{name}' of text {at + 1} is in {before.folder} already. Give every "
                    "text an id of its own, or leave ids out to have texts numbered."
                )


def _checked(text: str, row: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text {row} is {type(text).__name__}, not str")
    return text


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[IndexManifest]:
    """Have the index in ``folder`` to oneself; gives its manifest.

    What an earlier writer was killed at is removed first, and what this one leaves unfinished last.
    """
    read_index_manifest(folder)
    with lock(folder / LOCK, protects=folder):
        clean(folder, read_index_manifest(folder))
        try:
            with report_full_disk(folder):
                yield read_index_manifest(folder)
        finally:
            clean(folder, read_index_manifest(folder))


@contextlib.contextmanager
def new_index(folder: Path) -> Iterator[None]:
    """Have a new index folder to oneself; it goes again if no index comes to be there."""
    check_new_index(folder)
    existed = folder.exists()
    with lock(folder / LOCK, protects=folder):
        check_new_index(folder)  # another process may have been faster
        clean(folder, None)
        try:
            with report_full_disk(folder):
                yield
        finally:
            if (folder / MANIFEST).exists():
                clean(folder, read_index_manifest(folder))
            else:
                clean(folder, None)
                (folder / LOCK).unlink(missing_ok=True)
                if not existed:
                    folder.rmdir()


def clean(folder: Path, manifest: IndexManifest | None) -> None:
    """Remove files of ours that the manifest does not name."""
    named = {name.split("/")[0] for name in manifest.files()} if manifest else set()
    for pattern in _OURS[1:]:
        for path in folder.glob(pattern):
            if path.name in named:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def check_new_index(folder: Path) -> None:
    """Raise unless the folder is new, empty, or holds only what a killed build has left."""
    if (folder / MANIFEST).exists():
        raise TertiumError(
            f"{folder} holds an index already. Add to it: tertium index add {folder} FILE, or name "
            "another folder."
        )
    ours = {path for pattern in _OURS for path in folder.glob(pattern)}
    if not folder.is_dir() or any(path not in ours for path in folder.iterdir()):
        check_new_folder(folder)
