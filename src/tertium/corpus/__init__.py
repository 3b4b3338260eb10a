"""Many texts at once: an index to search, pairs to mine, duplicates to drop, groups to find."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.corpus.candidates import Candidates, find_candidates, read_candidates
    from tertium.corpus.clusters import (
        Cluster,
        Clustering,
        Outlier,
        cluster,
        name_clusters,
        outliers,
    )
    from tertium.corpus.duplicates import Deduped, Dropped, Reason, dedupe
    from tertium.corpus.hnsw import Method
    from tertium.corpus.index import Hit, Index
    from tertium.corpus.mining import Mined, MinedPair, mine
    from tertium.corpus.store import Dtype, Entry
    from tertium.corpus.where import WhereError
    from tertium.corpus.write import Updated

__all__ = [
    "Candidates",
    "Cluster",
    "Clustering",
    "Deduped",
    "Dropped",
    "Dtype",
    "Entry",
    "Hit",
    "Index",
    "Method",
    "Mined",
    "MinedPair",
    "Outlier",
    "Reason",
    "Updated",
    "WhereError",
    "cluster",
    "dedupe",
    "find_candidates",
    "mine",
    "name_clusters",
    "outliers",
    "read_candidates",
]

__getattr__ = lazy(__name__)
