"""Many texts at once: an index to search, pairs to mine, duplicates to drop, groups to find."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.corpus.clusters import Cluster, Clustering, cluster
    from tertium.corpus.duplicates import Deduped, Dropped, Reason, dedupe
    from tertium.corpus.hnsw import Method
    from tertium.corpus.index import Hit, Index
    from tertium.corpus.manifest import Dtype
    from tertium.corpus.mining import Mined, MinedPair, mine

__all__ = [
    "Cluster",
    "Clustering",
    "Deduped",
    "Dropped",
    "Dtype",
    "Hit",
    "Index",
    "Method",
    "Mined",
    "MinedPair",
    "Reason",
    "cluster",
    "dedupe",
    "mine",
]

__getattr__ = lazy(
    __name__,
    {
        "clusters": ["Cluster", "Clustering", "cluster"],
        "duplicates": ["Deduped", "Dropped", "Reason", "dedupe"],
        "hnsw": ["Method"],
        "index": ["Hit", "Index"],
        "manifest": ["Dtype"],
        "mining": ["Mined", "MinedPair", "mine"],
    },
)
