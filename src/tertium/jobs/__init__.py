"""Bulk jobs: encode or score files of any size into Parquet shards, in parallel and resumable."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.data.shards import (
        ScoreBlock,
        VectorBlock,
        iter_scores,
        iter_vectors,
        read_vectors,
    )
    from tertium.jobs.request import Execution, Finished
    from tertium.jobs.run import encode_file, score_file
    from tertium.jobs.source import OnError

__all__ = [
    "Execution",
    "Finished",
    "OnError",
    "ScoreBlock",
    "VectorBlock",
    "encode_file",
    "iter_scores",
    "iter_vectors",
    "read_vectors",
    "score_file",
]

__getattr__ = lazy(__name__)
