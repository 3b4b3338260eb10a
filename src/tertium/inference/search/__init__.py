"""Many texts at once: an index to search, pairs to mine, duplicates to drop, groups to find."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.inference.search.clusters import Cluster, Clustering, cluster
    from tertium.inference.search.duplicates import Deduped, Dropped, Reason, dedupe
    from tertium.inference.search.index import Hit, TextIndex
    from tertium.inference.search.manifest import Dtype
    from tertium.inference.search.method import Method
    from tertium.inference.search.mining import Mined, MinedPair, mine

__all__ = [
    "Cluster",
    "Clustering",
    "Deduped",
    "Dropped",
    "Dtype",
    "Hit",
    "Method",
    "Mined",
    "MinedPair",
    "Reason",
    "TextIndex",
    "cluster",
    "dedupe",
    "mine",
]

__getattr__ = lazy(
    __name__,
    {
        "clusters": ["Cluster", "Clustering", "cluster"],
        "duplicates": ["Deduped", "Dropped", "Reason", "dedupe"],
        "index": ["Hit", "TextIndex"],
        "manifest": ["Dtype"],
        "method": ["Method"],
        "mining": ["Mined", "MinedPair", "mine"],
    },
)
