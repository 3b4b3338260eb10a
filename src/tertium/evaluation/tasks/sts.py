"""STS tasks in the "all" setting (one correlation over all pairs), and the embedding geometry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tertium.data import benchmarks
from tertium.evaluation.metrics import bootstrap_counts, defined, hundred, pearson, spearman
from tertium.evaluation.tasks.base import Context, Outcome, measure

__all__ = ["GeometryTask", "StsTask", "space_geometry", "subset_correlations"]

_STS_PROTOCOL = "Spearman of {} and gold over all pairs together (SentEval 'all')"
_GEOMETRY_PROTOCOL = (
    "STS-B, L2-normalised embeddings: alignment over pairs with gold > 4; uniformity, anisotropy "
    "and effective rank over all sentences of both sides, duplicates kept"
)


def subset_correlations(
    subsets: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> dict[str, Any]:
    """Correlations per subset and three summaries, from ``{subset: (gold, predicted)}``.

    ``all`` is one correlation over the concatenation (as in the papers), ``mean`` the average over
    subsets, and ``wmean`` their average weighted by size.
    """
    measures = {"spearman": spearman, "pearson": pearson}
    sizes = [len(np.asarray(gold)) for gold, _ in subsets.values()]
    gold = np.concatenate([np.asarray(gold) for gold, _ in subsets.values()])
    predicted = np.concatenate([np.asarray(predicted) for _, predicted in subsets.values()])
    each = {
        name: {key: measure(*columns) for key, measure in measures.items()}
        for name, columns in subsets.items()
    }
    return {
        "all": {key: measure(gold, predicted) for key, measure in measures.items()},
        "mean": {key: float(np.mean([s[key] for s in each.values()])) for key in measures},
        "wmean": {
            key: float(np.average([s[key] for s in each.values()], weights=sizes))
            for key in measures
        },
        "subsets": {
            name: {**values, "pairs": size}
            for (name, values), size in zip(each.items(), sizes, strict=True)
        },
    }


@dataclass(frozen=True)
class StsTask:
    """One of the seven STS tasks."""

    name: str
    headline: str = "spearman"

    def run(self, context: Context) -> Outcome:
        """Score all pairs of the test split."""
        data = benchmarks.load(self.name, split="test", folder=context.folder, text=context.text)
        pairs = [(row.sentence1, row.sentence2) for row in data.rows]
        gold = np.array([row.score for row in data.rows])
        counts = None
        if context.resamples:
            counts = bootstrap_counts(len(gold), resamples=context.resamples, seed=context.seed)
        found = measure(context, pairs, gold, counts)
        values = {
            "spearman": found.agreement.spearman,
            "pearson": found.agreement.pearson,
            "pairs": found.agreement.pairs,
            "interval": found.agreement.interval,
            **_by_subset([row.subset for row in data.rows], gold, found.predicted),
            **found.entries,
        }
        by = "score" if context.cache.model.reads_together else "cosine"
        protocol = _STS_PROTOCOL.format(by)
        return Outcome(values, protocol, data, found.agreement.samples, found.differences)


def _by_subset(
    subsets: list[str], gold: NDArray[np.float64], predicted: NDArray[np.float64]
) -> dict[str, Any]:
    """Figures of each subset and their two means; empty if there is only one subset."""
    names = np.array(subsets)
    groups = {name: names == name for name in dict.fromkeys(subsets)}
    if len(groups) == 1:
        return {}
    found = subset_correlations({n: (gold[rows], predicted[rows]) for n, rows in groups.items()})
    return {
        **{
            summary: {key: hundred(value) for key, value in found[summary].items()}
            for summary in ("mean", "wmean")
        },
        "subsets": {
            name: {k: v if k == "pairs" else hundred(v) for k, v in entry.items()}
            for name, entry in found["subsets"].items()
        },
    }


def space_geometry(
    first: NDArray[np.float32], second: NDArray[np.float32], positive: NDArray[np.bool_]
) -> dict[str, float]:
    """Measures of the embedding space: Wang & Isola (2020) and others.

    Args:
        first: embeddings of one text of each pair.
        second: embeddings of the other text.
        positive: which pairs mean the same; alignment is measured on them.
    """
    import torch

    from tertium.functional import alignment, anisotropy, effective_rank, uniformity

    u, v = torch.from_numpy(first).double(), torch.from_numpy(second).double()
    close = torch.from_numpy(positive)
    everything = torch.nn.functional.normalize(torch.cat([u, v]), dim=1)
    return {
        "alignment": float(alignment(u[close], v[close])),
        "uniformity": float(uniformity(everything)),
        "anisotropy": float(anisotropy(everything)),
        "effective_rank": float(effective_rank(everything)),
        "positives": int(positive.sum()),
        "sentences": len(everything),
    }


@dataclass(frozen=True)
class GeometryTask:
    """Alignment, uniformity, anisotropy and effective rank, on STS-B."""

    name: str
    headline: str = "uniformity"

    def run(self, context: Context) -> Outcome:
        """Measure on the test split."""
        data = benchmarks.load("STS-B", split="test", folder=context.folder, text=context.text)
        first = context.cache.embed([row.sentence1 for row in data.rows])
        second = context.cache.embed([row.sentence2 for row in data.rows])
        found = space_geometry(first, second, np.array([row.score > 4 for row in data.rows]))
        counted = {key: int(found.pop(key)) for key in ("positives", "sentences")}
        measures = {key: defined(value) for key, value in found.items()}
        values = {**measures, "dimension": context.cache.embedder.dimension, **counted}
        return Outcome(values, _GEOMETRY_PROTOCOL, data)
