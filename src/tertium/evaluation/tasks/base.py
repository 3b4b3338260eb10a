"""The input of a task (model, data folder, options) and its output."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tertium.data.benchmarks import Loaded, TextForm
from tertium.data.overlap import pair_key
from tertium.errors import TertiumError
from tertium.evaluation.metrics import (
    Agreement,
    agreement,
    bootstrap_spearman,
    cosines,
    hundred,
    paired_difference,
    spearman,
)
from tertium.models.base import Embedder, Model
from tertium.models.vectors import check_finite

__all__ = [
    "Context",
    "EmbeddingCache",
    "Measured",
    "Outcome",
    "Task",
    "against_baseline",
    "measure",
]

Samples = NDArray[np.float64]


class EmbeddingCache:
    """A model that encodes each text once, however many tasks use it."""

    def __init__(self, model: Model, *, progress: bool | None = None) -> None:
        self.model = model
        self._progress = progress
        self._rows: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        model = self.embedder
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            rows = model.encode(new, progress=self._progress)
            check_finite(model, new, rows)
            self._rows.update(zip(new, rows, strict=True))
        return np.stack([self._rows[text] for text in texts])

    def cosines(self, items: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """The cosine of the first two texts of each item."""
        both = self.embed([item[side] for side in (0, 1) for item in items])
        return cosines(both[: len(items)], both[len(items) :])

    def scores(self, items: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """The model's scores of pairs, or of triples if it takes conditions."""
        scores = np.asarray(self.model.score(items, progress=self._progress), dtype=np.float64)
        if not np.isfinite(scores).all():
            first = items[int(np.argmin(np.isfinite(scores)))]
            raise TertiumError(f"{self.model.name} gives a score that is not finite for {first}.")
        return scores

    def similarities(self, items: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Scores if the model takes conditions or reads both texts together, otherwise cosines."""
        if self.model.takes_conditions and len(items[0]) == 3:
            return self.scores(items)
        if self.model.reads_together:
            return self.scores([(item[0], item[1]) for item in items])
        return self.cosines(items)

    @property
    def embedder(self) -> Embedder:
        """The model, which must have vectors."""
        model = self.model.vector_model
        if not isinstance(model, Embedder):
            takes = self.model.takes_conditions
            how = "under a condition" if takes else "by reading them together"
            raise TertiumError(
                f"{self.model.name} compares sentences {how} and gives no vectors. "
                f"Evaluate it with --suite {'csts' if takes else 'sts'}."
            )
        return model


@dataclass(frozen=True)
class Context:
    """Options of one evaluation.

    Attributes:
        cache: the model under test.
        folder: benchmark folder, or None for the hub.
        text: ``senteval`` (tokenised, as in the papers) or ``raw``.
        resamples: bootstrap samples; 0 for no intervals and tests.
        seed: random seed for the bootstrap and the folds.
        excluded: keys of pairs that the leak-free figures exclude, or None for no such figures.
        baseline: the model to compare with, if any.
    """

    cache: EmbeddingCache
    folder: Path | None = None
    text: TextForm = "senteval"
    resamples: int = 1000
    seed: int = 0
    excluded: frozenset[Any] | None = None
    baseline: EmbeddingCache | None = None

    @property
    def pooling(self) -> str | None:
        """The name of the tested model's pooling."""
        pooling = self.cache.model.pooling
        return None if pooling is None else str(pooling)


@dataclass(frozen=True)
class Outcome:
    """A task's figures.

    ``samples`` are bootstrap samples of the headline figure, and ``differences`` those of its
    difference from the baseline; the suite's average is computed from them.
    """

    values: dict[str, Any]
    protocol: str
    data: Loaded
    samples: Samples | None = None
    differences: Samples | None = None


class Task(Protocol):
    """One benchmark task."""

    @property
    def name(self) -> str:
        """Key in ``TASKS``."""
        ...

    @property
    def headline(self) -> str:
        """The figure that a suite averages."""
        ...

    def run(self, context: Context) -> Outcome:
        """Load the data, embed, score."""
        ...


@dataclass(frozen=True)
class Measured:
    """Scores of a task's items, and how they agree with the grades.

    Attributes:
        predicted: a score per item.
        agreement: agreement with the grades.
        entries: ``baseline`` and ``leak_free`` of the task's values, if requested.
        differences: bootstrap samples of the difference from the baseline's correlation.
    """

    predicted: Samples
    agreement: Agreement
    entries: dict[str, Any]
    differences: Samples | None


def measure(
    context: Context,
    items: Sequence[tuple[str, ...]],
    gold: NDArray[np.float64],
    counts: NDArray[np.int32] | None,
) -> Measured:
    """Score pairs or triples, also with the baseline if there is one.

    Args:
        context: the models, and the pairs that leak-free figures exclude.
        items: two sentences each, and a condition if there is one.
        gold: people's grades.
        counts: bootstrap samples, or None for no intervals and no baseline.
    """
    predicted = context.cache.similarities(items)
    seen = None
    if context.excluded is not None:
        seen = np.array([pair_key(item[0], item[1]) in context.excluded for item in items])
    found = agreement(gold, predicted, counts=counts, seen=seen)
    entries: dict[str, Any] = {}
    differences = None
    if context.baseline is not None and counts is not None and found.samples is not None:
        other = context.baseline.similarities(items)
        score = spearman(gold, other)
        differences = found.samples - bootstrap_spearman(gold, other, counts)
        entries["baseline"] = against_baseline(
            context.baseline, score, spearman(gold, predicted) - score, differences
        )
    if found.leak_free is not None:
        entries["leak_free"] = found.leak_free
    return Measured(predicted, found, entries, differences)


def against_baseline(
    baseline: EmbeddingCache, value: float, difference: float, samples: Samples
) -> dict[str, Any]:
    """The ``baseline`` entry of a figure."""
    name = baseline.model.name
    return {"model": name, "value": hundred(value), **paired_difference(difference, samples)}
