"""Groups of texts: communities around a text, or as many groups as are asked for."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tertium.corpus.exact import nearest
from tertium.corpus.hnsw import check_threshold
from tertium.corpus.rows import Matrix, Source, cosines, distinct_rows, unit
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.progress import track

__all__ = ["Cluster", "Clustering", "Outlier", "cluster", "name_clusters", "outliers"]

_HELD = 1 << 24  # similarities that finding communities holds at once: 64 MB
_WINDOW = 4096
_WORD = re.compile(r"[^\W\d_]{2,}")
_MOST = 200_000  # texts among which communities are looked for


@dataclass(frozen=True)
class Cluster:
    """Texts that belong together.

    Attributes:
        centre: row of the most typical text.
        rows: all of them, the centre first, then by falling similarity.
        scores: cosine of each with the centre; with ``k`` groups, with the mean of the group.
    """

    centre: int
    rows: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Clustering:
    """Clusters, the largest first, and the rows that are in none."""

    clusters: tuple[Cluster, ...]
    alone: tuple[int, ...]


def cluster(
    texts: Sequence[str],
    source: Source,
    *,
    threshold: float = 0.75,
    min_size: int = 3,
    k: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Clustering:
    """Group texts.

    Without ``k``, communities: a text with all that reach ``threshold`` with it, the largest first;
    a text belongs to one at most, and many to none (as ``community_detection`` of
    sentence-transformers finds them; every pair is looked at). With ``k``, that many groups, and
    every text in one (``MiniBatchKMeans`` of scikit-learn on unit vectors); fewer, with a warning,
    where texts repeat and groups stay empty.

    Args:
        texts: any number; they and their vectors are held in memory.
        source: a model, or the vectors that it made, row i of text i.
        threshold: minimum cosine with the most typical text.
        min_size: communities of fewer texts are none.
        k: how many groups at most, instead of communities.
        seed: of the first centres, with ``k``.
        progress: False for no progress on standard error.
    """
    check_threshold(threshold)
    if min_size < 1:
        raise TertiumError(f"A community has at least one text, not {min_size}.")
    if k is not None and not 1 <= k <= len(texts):
        raise TertiumError(f"{len(texts):,} texts cannot be put into {k:,} groups.")
    if k is None and len(texts) > _MOST:
        raise TertiumError(
            f"Communities compare all texts with all others, which {len(texts):,} texts are too "
            f"many for (at most {_MOST:,}). Ask for groups with k, or dedupe first."
        )
    if not len(texts):
        return Clustering((), ())
    vectors = distinct_rows(texts, source, range(len(texts)), progress=progress).block(0, 1 << 62)
    if k is None:
        found = _communities(vectors, threshold, min_size, progress=progress)
    else:
        found = _groups(vectors, k, seed)
        if len(found) < k:
            warnings.warn(
                f"{len(found):,} groups instead of {k:,}: the others stayed empty, as they do "
                "where texts repeat.",
                TertiumWarning,
                stacklevel=2,
            )
    inside = {row for group in found for row in group.rows}
    return Clustering(tuple(found), tuple(row for row in range(len(texts)) if row not in inside))


def _communities(
    vectors: Matrix, threshold: float, min_size: int, *, progress: bool | None
) -> list[Cluster]:
    found: list[tuple[int, NDArray[np.intp]]] = []  # centres with all that are near enough
    step = max(1, min(1024, _HELD // len(vectors)))
    for start in track(
        range(0, len(vectors), step), label="communities", unit="block", show=progress
    ):
        near = vectors[start : start + step] @ vectors.T >= threshold
        near[np.arange(len(near)), np.arange(start, start + len(near))] = True  # whatever rounding
        many = np.flatnonzero(near.sum(axis=1) >= min_size).tolist()
        found += [(start + at, np.flatnonzero(near[at])) for at in many]
    taken = np.zeros(len(vectors), dtype=bool)
    groups = []
    for centre, rows in sorted(found, key=lambda community: -len(community[1])):
        rows = rows[~taken[rows]]
        if not taken[centre] and len(rows) >= min_size:
            taken[rows] = True
            groups.append(_ordered(vectors, rows.tolist(), vectors[centre], centre=centre))
    return sorted(groups, key=lambda group: (-len(group.rows), group.centre))


def _groups(vectors: Matrix, k: int, seed: int) -> list[Cluster]:
    require("train", purpose="A given number of groups", packages=["sklearn"])
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(k, random_state=seed, batch_size=_WINDOW, n_init=3).fit(vectors)
    labels: NDArray[np.int32] = means.labels_
    centres = unit(means.cluster_centers_)
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.searchsorted(labels[order], np.arange(1, k)))
    groups = [
        _ordered(vectors, rows.tolist(), centre)
        for rows, centre in zip(members, centres, strict=True)
        if len(rows)
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), group.centre))


def _ordered(
    vectors: Matrix, rows: Sequence[int], middle: Matrix, *, centre: int | None = None
) -> Cluster:
    """Rows by falling similarity to the middle, the centre first whatever its equals."""
    scores = cosines(vectors[list(rows)], middle[None])
    placed = np.asarray(rows)
    order = np.lexsort((placed, -scores, placed != (-1 if centre is None else centre)))
    ranked = placed[order].tolist()
    return Cluster(ranked[0], tuple(ranked), tuple(scores[order].tolist()))


class Outlier(NamedTuple):
    """A text with the one that is nearest to it, which is not near."""

    row: int
    nearest: int
    score: float


def outliers(
    texts: Sequence[str], source: Source, *, limit: int = 20, progress: bool | None = None
) -> list[Outlier]:
    """The texts that are least like any other, the loneliest first; every pair is looked at.

    Args:
        texts: any number; they and their vectors are held in memory.
        source: a model, or the vectors that it made, row i of text i.
        limit: how many.
        progress: False for no progress on standard error.
    """
    if len(texts) < 2:
        return []
    rows = distinct_rows(texts, source, range(len(texts)), progress=progress)
    partners, scores = np.empty(len(texts), np.int64), np.empty(len(texts))
    for start in track(
        range(0, len(texts), _WINDOW), label="outliers", unit="block", show=progress
    ):
        found = nearest(rows, rows.block(start, start + _WINDOW), 2)
        own = np.arange(start, start + len(found.positions))
        at = (found.positions[:, 0] == own).astype(int)  # of a repeated text, another may be first
        partners[own] = found.positions[np.arange(len(own)), at]
        scores[own] = found.scores[np.arange(len(own)), at]
    order = np.argsort(scores, kind="stable")[:limit]
    return [Outlier(int(row), int(partners[row]), float(scores[row])) for row in order]


def name_clusters(
    texts: Sequence[str], clusters: Sequence[Cluster], *, words: int = 3
) -> list[tuple[str, ...]]:
    """The words that tell each cluster from the others, by class-based TF-IDF.

    A word's weight in a cluster is its share of the cluster's words times log(1 + A / f), where A
    is the average number of words in a cluster and f how often the word stands in all of them
    (Grootendorst, 2022, arXiv:2203.05794). Words of one letter and numbers do not count.
    """
    counts = [
        Counter(word for row in group.rows for word in _WORD.findall(texts[row].lower()))
        for group in clusters
    ]
    everywhere: Counter[str] = Counter()
    for each in counts:
        everywhere.update(each)
    average = sum(everywhere.values()) / max(len(counts), 1)
    found = []
    for each in counts:
        total = max(sum(each.values()), 1)
        weights = {
            word: count / total * math.log(1 + average / everywhere[word])
            for word, count in each.items()
        }
        best = sorted(weights, key=lambda word: (-weights[word], word))
        found.append(tuple(best[:words]))
    return found
