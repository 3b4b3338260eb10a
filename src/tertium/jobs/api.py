"""Bulk jobs: vectors of texts, and scores of pairs and triples, from a file into a folder."""

from pathlib import Path
from typing import Any

from tertium.data.shards import Content
from tertium.errors import TertiumError, unknown_name
from tertium.jobs.request import Execution, Finished, Request
from tertium.jobs.source import OnError, Source
from tertium.models.names import takes_conditions

__all__ = ["encode_file", "score_file"]


def encode_file(
    texts: Path | str,
    folder: Path | str,
    *,
    model: str = "default",
    column: str | None = None,
    normalize: bool = False,
    dtype: str = "float32",
    on_error: OnError | str = OnError.FAIL,
    shard_rows: int | None = None,
    execution: Execution | None = None,
    progress: bool | None = None,
    **loading: Any,
) -> Finished:
    """Encode a file of any size into ``folder``; the same call after any interruption resumes.

    A script that calls this needs ``if __name__ == "__main__":``, as all that start processes do.

    Args:
        texts: text, TSV, CSV, JSONL or Parquet.
        folder: new, empty, or what an earlier call with the same arguments left.
        model: reserved name, folder or hub id.
        column: which column of a table (default: ``sentence`` or ``text``).
        normalize: scale every vector to length 1.
        dtype: ``float32`` or ``float16`` in the files.
        on_error: ``fail`` at the first bad row, before anything is encoded, or ``skip-and-log``.
        shard_rows: rows of a file (default: by the number of rows).
        execution: how many processes, or which cluster.
        progress: False for no progress on standard error.
        loading: further arguments of ``tertium.load``.
    """
    if takes_conditions(model, revision=loading.get("revision")):
        raise TertiumError(
            f"{model} compares sentences under a condition and gives no vectors. Name an encoder, "
            "such as default, or the folder 'encoder' inside it."
        )
    request = Request(
        Source(Path(texts), Content.TEXTS, column),
        Path(folder),
        model,
        normalize=normalize,
        dtype=dtype,
        on_error=_on_error(on_error),
        shard_rows=shard_rows,
        loading=loading,
    )
    from tertium.jobs.run import run  # heavy, and the request is checked

    return run(request, execution, progress=progress)


def score_file(
    pairs: Path | str,
    folder: Path | str,
    *,
    model: str = "sts",
    on_error: OnError | str = OnError.FAIL,
    shard_rows: int | None = None,
    execution: Execution | None = None,
    progress: bool | None = None,
    **loading: Any,
) -> Finished:
    """Score every pair of a file, or every triple if the model takes conditions.

    Takes the arguments of :func:`encode_file` that concern no vectors.
    """
    triples = takes_conditions(model, revision=loading.get("revision"))
    content = Content.TRIPLES if triples else Content.PAIRS
    request = Request(
        Source(Path(pairs), content),
        Path(folder),
        model,
        on_error=_on_error(on_error),
        shard_rows=shard_rows,
        loading=loading,
    )
    from tertium.jobs.run import run  # heavy, and the request is checked

    return run(request, execution, progress=progress)


def _on_error(name: OnError | str) -> OnError:
    try:
        return OnError(name)
    except ValueError:
        raise unknown_name("way with bad rows", name, [str(way) for way in OnError]) from None
