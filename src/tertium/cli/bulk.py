"""What ``encode`` and ``score`` share when their output is a folder of shards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tertium.cli.output import emit, note
from tertium.errors import TertiumError

if TYPE_CHECKING:
    from tertium.jobs import Finished

__all__ = [
    *("CLUSTER", "DTYPE", "ON_ERROR", "RAY_ADDRESS", "SHARD_ROWS", "THREADS", "WORKERS"),
    *("BulkOptions", "encode_folder", "is_folder", "score_folder"),
]

WORKERS = typer.Option(
    None, help="For a folder: worker processes (default: one per processor, at most 8)."
)
THREADS = typer.Option(None, help="For a folder: threads of each worker (default: 1).")
SHARD_ROWS = typer.Option(None, help="For a folder: rows of a file (default: by the row count).")
ON_ERROR = typer.Option(None, help="For a folder: a bad row makes it fail, or skip-and-log.")
DTYPE = typer.Option(None, help="For a folder: float32 (default) or float16.")
CLUSTER = typer.Option(None, "--engine-cluster", help="For a folder: ray, to run on a cluster.")
RAY_ADDRESS = typer.Option(None, help="Address of a running Ray cluster (default: start one here).")


@dataclass(frozen=True)
class BulkOptions:
    """Options that only make sense for a folder; None where the user said nothing."""

    workers: int | None = None
    threads: int | None = None
    shard_rows: int | None = None
    on_error: str | None = None
    dtype: str | None = None
    engine_cluster: str | None = None
    ray_address: str | None = None

    def refuse(self) -> None:
        """Raise if one was given although the output is a single file."""
        for field in fields(self):
            if getattr(self, field.name) is not None:
                option = "--" + field.name.replace("_", "-")
                raise TertiumError(f"{option} is for an output folder, such as -o vectors/.")

    def arguments(self) -> dict[str, Any]:
        """Those of ``encode_file`` and ``score_file``."""
        from tertium.jobs import Crew

        crew = Crew(
            workers=self.workers,
            threads=1 if self.threads is None else self.threads,
            cluster=self.engine_cluster,
            address=self.ray_address,
        )
        given = {"on_error": self.on_error, "shard_rows": self.shard_rows, "dtype": self.dtype}
        return {"crew": crew, **{name: x for name, x in given.items() if x is not None}}


def is_folder(output: str) -> bool:
    """Whether shards are asked for: a name with a slash at its end, or without an ending."""
    return output.endswith(("/", os.sep)) or not Path(output).suffix


def encode_folder(
    texts: Path, output: str, options: BulkOptions, *, as_json: bool, **arguments: Any
) -> None:
    """Encode ``texts`` into a folder and say what is in it."""
    from tertium.jobs import encode_file

    with _interrupted():
        finished = encode_file(texts, output, **options.arguments(), **arguments)
    width = finished.about["dimension"]
    if as_json:
        emit(_json(finished, dimension=width))
    else:
        note(_sentence(finished, f"vectors of width {width}"))


def score_folder(
    pairs: Path,
    output: str,
    options: BulkOptions,
    *,
    model: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Score ``pairs`` into a folder and say what is in it."""
    from tertium.data.readers import detect_kind
    from tertium.jobs import score_file
    from tertium.models.names import takes_conditions

    asks = detect_kind(pairs) == "conditional"
    name = model or ("conditional" if asks else "sts")
    if asks and not takes_conditions(name):
        note(f"note: {name} does not take conditions; the column is left out.")
    with _interrupted():
        finished = score_file(pairs, output, model=name, **options.arguments(), **arguments)
    low, high = finished.about["scale"]
    if as_json:
        emit(_json(finished, scale=[low, high]))
    else:
        note(_sentence(finished, f"scores on {low:g}..{high:g}"))


@contextmanager
def _interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        note("finished shards are kept: the same command goes on from here")
        raise


def _json(finished: "Finished", **result: Any) -> dict[str, Any]:
    shards = {"shards": finished.shards, "made": finished.made, "skipped": finished.skipped}
    return {"output": str(finished.folder), "rows": finished.rows, **result, **shards}


def _sentence(finished: "Finished", what: str) -> str:
    there = finished.shards - finished.made
    shards = "1 shard" if finished.shards == 1 else f"{finished.shards:,} shards"
    parts = [f"{finished.folder}: {finished.rows:,} {what} in {shards}"]
    if there:
        parts.append(f"{there:,} of them were there")
    if finished.skipped:
        log = finished.folder / "_skipped.jsonl"
        parts.append(f"bad rows skipped: {finished.skipped:,}, see {log}")
    return "; ".join(parts)
