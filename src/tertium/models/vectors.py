"""Vectors of many texts, computed once, kept in a file and mapped into memory."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.files import new_matrix, write_text
from tertium.models.base import Embedder, digest
from tertium.models.tokens import TokenizationStats, chunks
from tertium.progress import bar
from tertium.records.lock import lock

__all__ = ["check_finite", "embedded_windows", "map_vectors", "vectors_fingerprint"]

_CHUNK = 2048  # texts; an interruption loses at most this many


def map_vectors(
    model: Embedder,
    texts: Sequence[str],
    path: Path,
    *,
    chunk: int = _CHUNK,
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """A memory-mapped matrix whose row i is the vector of text i, computed now if needed.

    An interrupted call is resumed by the next one with the same model and texts, and a complete
    file is only opened. If several processes call it, one writes and the others wait.

    Args:
        model: computes the vectors.
        texts: texts in the order of the rows.
        path: a .npy file; a .json file beside it records the progress.
        chunk: texts between two records of the progress.
        progress: False for no progress on standard error.
    """
    if not texts:
        raise TertiumError("There are no texts to embed.")
    with lock(path.with_suffix(".lock")):
        _fill(model, texts, path, chunk=chunk, progress=progress)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def vectors_fingerprint(model: Embedder) -> str:
    """The hash of everything that a model's vectors depend on.

    For a model that grades pairs it is that of its encoder, since the head does not change vectors.
    """
    inside = model.vector_model
    members = [[repr(member.weight), member.model.fingerprint] for member in inside.members]
    return digest(members) if members else inside.fingerprint


def embedded_windows(
    model: Embedder, texts: Iterable[str], *, window: int, prompt: str | None = None
) -> Iterator[NDArray[Any]]:
    """The vectors of ``window`` texts at a time; cut texts are reported once, at the end.

    ``prompt`` precedes every text (default: the model's).
    """
    truncation = TokenizationStats()
    before = {} if prompt is None else {"prompt": prompt}
    for part in chunks(texts, window):
        rows = np.asarray(model.encode(part, progress=False, truncation=truncation, **before))
        if rows.shape != (len(part), model.dimension):
            raise TertiumError(
                f"{model.name} returned vectors of shape {rows.shape}, not "
                f"{(len(part), model.dimension)}."
            )
        check_finite(model, part, rows)
        yield rows
    truncation.report()


def check_finite(model: Embedder, texts: Sequence[str], rows: NDArray[Any]) -> None:
    """Raise with the first text whose vector is not finite."""
    if not np.isfinite(rows).all():
        first = texts[int(np.argmin(np.isfinite(rows).all(axis=1)))]
        raise TertiumError(f"{model.name} gives a vector that is not finite for {first[:60]!r}.")


def _fill(
    model: Embedder, texts: Sequence[str], path: Path, *, chunk: int, progress: bool | None
) -> None:
    record = path.with_suffix(".json")
    wanted = {"sha256": _digest(model, texts), "rows": len(texts), "dimension": model.dimension}
    done = _done(record, path, wanted)
    if done == len(texts):
        return
    shape = (len(texts), model.dimension)
    matrix = np.load(path, mmap_mode="r+") if done else new_matrix(path, np.float32, shape)
    with bar(total=len(texts), label="teacher", unit="text", show=progress) as shown:
        shown.update(done)
        for rows in embedded_windows(model, texts[done:], window=chunk):
            matrix[done : done + len(rows)] = rows
            matrix.flush()
            done += len(rows)
            write_text(record, json.dumps({**wanted, "done": done}))  # from now on these rows count
            shown.update(len(rows))


def _done(record: Path, path: Path, wanted: dict[str, object]) -> int:
    """Rows that an earlier call with the same model and texts has finished."""
    if not (record.exists() and path.exists()):
        return 0
    found = json.loads(record.read_text())
    same = all(found.get(key) == value for key, value in wanted.items())
    return int(found["done"]) if same else 0


def _digest(model: Embedder, texts: Sequence[str]) -> str:
    """One hash of everything that the vectors depend on; the model's name is not part of it."""
    found = hashlib.sha256(vectors_fingerprint(model).encode())
    for text in texts:
        content = text.encode(errors="surrogatepass")
        found.update(f"\n{len(content)} ".encode() + content)
    return found.hexdigest()
