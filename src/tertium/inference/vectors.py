"""Vectors of many texts, made once, kept in a file and mapped into memory."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.progress import bar
from tertium.types import Embedder

__all__ = ["map_vectors"]

_CHUNK = 2048  # texts; an interruption loses at most so many


def map_vectors(
    model: Embedder,
    texts: Sequence[str],
    path: Path,
    *,
    chunk: int = _CHUNK,
    progress: bool | None = None,
) -> NDArray[np.float32]:
    """Row i is the vector of text i, read from ``path`` when it is asked for.

    What an interrupted call has written is kept: the next one with the same model and texts goes
    on behind it, and where all is there nothing is encoded. Several processes may call it: one
    writes, the others wait.

    Args:
        model: makes the vectors.
        texts: in the order of the rows.
        path: a .npy file; how far it is stands beside it, in a .json file.
        chunk: texts between two notes of how far it is.
        progress: show a bar; by default on a terminal.
    """
    if not texts:
        raise TertiumError("There are no texts to embed.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        _fill(model, texts, path, chunk=chunk, progress=progress)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def _fill(
    model: Embedder, texts: Sequence[str], path: Path, *, chunk: int, progress: bool | None
) -> None:
    record = path.with_suffix(".json")
    wanted = {"sha256": _digest(model, texts), "rows": len(texts), "dimension": model.dimension}
    done = _done(record, path, wanted)
    if done == len(texts):
        return
    shape = (len(texts), model.dimension)
    matrix = np.lib.format.open_memmap(
        path, "r+" if done else "w+", dtype=np.dtype(np.float32), shape=shape
    )
    with bar(total=len(texts), label="teacher", unit="text", show=progress) as shown:
        shown.update(done)
        for start in range(done, len(texts), chunk):
            part = list(texts[start : start + chunk])
            rows = model.encode(part, progress=False)
            if not np.isfinite(rows).all():
                first = part[int(np.argmin(np.isfinite(rows).all(axis=1)))]
                raise TertiumError(
                    f"{model.name} gives a vector that is not finite for {first[:60]!r}."
                )
            matrix[start : start + len(part)] = rows
            matrix.flush()
            with atomic_path(record) as temporary:  # only now do these rows count
                temporary.write_text(json.dumps({**wanted, "done": start + len(part)}))
            shown.update(len(part))


def _done(record: Path, path: Path, wanted: dict[str, object]) -> int:
    """Rows that an earlier call with the same model and texts has finished."""
    if not (record.exists() and path.exists()):
        return 0
    found = json.loads(record.read_text())
    same = all(found.get(key) == value for key, value in wanted.items())
    return int(found["done"]) if same else 0


def _digest(model: Embedder, texts: Sequence[str]) -> str:
    found = hashlib.sha256(f"{model.name}\n{model.pooling}\n".encode(errors="replace"))
    for text in texts:
        found.update(text.encode(errors="replace") + b"\n")
    return found.hexdigest()
