"""``tertium encode``: vectors for every text of a file."""

from pathlib import Path

import typer

from tertium.cli import bulk, corpus
from tertium.cli.output import ENGINE, JSON, MODEL, emit, note

__all__ = ["encode"]


def encode(
    texts: Path = corpus.TEXTS,
    output: str = typer.Option(
        ..., "--output", "-o", help="Where to write: .npy, .parquet, or a folder of shards (DIR/)."
    ),
    model: str = MODEL,
    column: str | None = typer.Option(None, help="Column of a table to encode."),
    normalize: bool = typer.Option(False, "--normalize", help="Scale vectors to length 1."),
    engine: str = ENGINE,
    workers: int | None = bulk.WORKERS,
    threads: int | None = bulk.THREADS,
    shard_rows: int | None = bulk.SHARD_ROWS,
    on_error: str | None = bulk.ON_ERROR,
    dtype: str | None = bulk.DTYPE,
    engine_cluster: str | None = bulk.CLUSTER,
    ray_address: str | None = bulk.RAY_ADDRESS,
    as_json: bool = JSON,
) -> None:
    """Encode texts into vectors, in constant memory; row i of the output is text i.

    A folder is filled by several processes, and by the same command again after an interruption.

    Example: tertium encode sentences.txt -o vectors.npy
    """
    shards = bulk.BulkOptions(
        workers, threads, shard_rows, on_error, dtype, engine_cluster, ray_address
    )
    chosen = {"model": model, "column": column, "normalize": normalize, "engine": engine}
    if bulk.is_folder(output):
        bulk.encode_folder(texts, output, shards, as_json=as_json, **chosen)
        return
    shards.refuse()
    from tertium.data.formats import VECTORS, check_format
    from tertium.data.readers import iter_texts
    from tertium.files import check_outputs

    check_format(Path(output), VECTORS, what="vectors")
    check_outputs(texts, Path(output))
    from tertium.jobs.writers import write_vectors
    from tertium.models.loading import load_embedder

    encoder = load_embedder(model, engine=engine)
    rows = write_vectors(
        encoder, lambda: iter_texts(texts, column=column), Path(output), normalize=normalize
    )
    if as_json:
        emit({"output": output, "rows": rows, "dimension": encoder.dimension})
    else:
        note(f"{output}: {rows:,} vectors of width {encoder.dimension}")
