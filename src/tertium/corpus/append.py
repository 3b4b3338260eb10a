"""Adding texts to an index: new files first, and last the manifest that names them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.embed import embed_into, store_into
from tertium.corpus.hnsw import Graph, codes
from tertium.corpus.ids import check_ids, entries
from tertium.corpus.manifest import (
    Dtype,
    GraphRecord,
    IndexManifest,
    Recall,
    SegmentRecord,
    record_file,
    write_index_manifest,
)
from tertium.corpus.method import EXACT_SEARCH
from tertium.corpus.recall import measure_recall
from tertium.corpus.rows import Matrix, Rows
from tertium.corpus.segments import (
    VECTORS,
    Segment,
    StoredTexts,
    merge_segments,
    record_segment,
    write_texts,
)
from tertium.corpus.snapshot import Snapshot
from tertium.errors import TertiumError, require
from tertium.files import new_matrix
from tertium.progress import bar
from tertium.types import Embedder

__all__ = ["Addition", "append"]

_WINDOW = 8192


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

    Whoever calls it has the folder to himself and removes what no manifest names.
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
    record = GraphRecord(name=path.name, count=len(graph), file=record_file(path))
    return manifest.model_copy(update={"graph": record, "next": manifest.next + 1})
