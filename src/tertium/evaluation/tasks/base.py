"""What a task is given (the model, the data folder, the options) and what it gives back."""

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
    """A model whose every text is encoded once, however many tasks ask for it."""

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
        """What the model itself says of pairs, or of triples if it takes conditions."""
        scores = np.asarray(self.model.score(items, progress=self._progress), dtype=np.float64)
        if not np.isfinite(scores).all():
            first = items[int(np.argmin(np.isfinite(scores)))]
            raise TertiumError(f"{self.model.name} gives a score that is not finite for {first}.")
        return scores

    def similarities(self, items: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
        """Scores of a model that takes conditions or reads both texts; otherwise their cosines."""
        if self.model.takes_conditions and len(items[0]) == 3:
            return self.scores(items)
        if self.model.reads_together:
            return self.scores([(item[0], item[1]) for item in items])
        return self.cosines(items)

    @property
    def embedder(self) -> Embedder:
        """The model, which must give vectors."""
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
        text: ``senteval`` (tokenised, what the papers use) or ``raw``.
        resamples: bootstrap samples; 0 leaves intervals and tests out.
        seed: for the bootstrap and for fold assignment.
        excluded: keys of pairs that the leak-free figures leave out, or None for no such figures.
        baseline: the model to test against, if any.
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
        """The pooling of the model under test, as results name it."""
        pooling = self.cache.model.pooling
        return None if pooling is None else str(pooling)


@dataclass(frozen=True)
class Outcome:
    """A task's figures before they are labelled.

    ``samples`` are the headline figure's bootstrap values and ``differences`` those of the paired
    difference from the baseline; the suite's average is formed from them.
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
        agreement: with the grades.
        entries: ``baseline`` and ``leak_free`` of the task's values, where they were asked for.
        differences: of the correlation from the baseline's, in the same bootstrap samples.
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
    """Score pairs or triples, with the baseline too if there is one.

    Args:
        context: the models, and the pairs that leak-free figures leave out.
        items: two sentences each, and a condition if there is one.
        gold: grades by people.
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
    """The ``baseline`` entry beside a figure."""
    name = baseline.model.name
    return {"model": name, "value": hundred(value), **paired_difference(difference, samples)}
