"""What a task is given: the model with a memory for texts, the data folder, the options."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.benchmarks import TextForm
from tertium.errors import TertiumError
from tertium.evaluation.metrics import cosines
from tertium.types import Embedder, TextTriple, TripleScorer

__all__ = ["Context", "Memory"]


class Memory:
    """A model whose every text is encoded once, however many tasks ask for it."""

    def __init__(self, model: Embedder | TripleScorer, *, progress: bool | None = None) -> None:
        self.model = model
        self._progress = progress
        self._rows: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text."""
        model = self.embedder
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            rows = model.encode(new, progress=self._progress)
            if not np.isfinite(rows).all():
                first = new[int(np.argmin(np.isfinite(rows).all(axis=1)))]
                raise TertiumError(
                    f"{model.name} gives a vector that is not finite for {first[:60]!r}."
                )
            self._rows.update(zip(new, rows, strict=True))
        return np.stack([self._rows[text] for text in texts])

    def similarities(self, triples: Sequence[TextTriple]) -> NDArray[np.float64]:
        """One figure per triple; a model without conditions gives the sentences' cosine."""
        if not isinstance(self.model, Embedder):
            scores = self.model.score(triples, progress=self._progress)
            return np.asarray(scores, dtype=np.float64)
        first, second = (self.embed([triple[side] for triple in triples]) for side in (0, 1))
        return cosines(first, second)

    @property
    def embedder(self) -> Embedder:
        """The model, which must give vectors."""
        if not isinstance(self.model, Embedder):
            raise TertiumError(
                f"{self.model.name} compares sentences under a condition and gives no vectors. "
                "Evaluate it with --suite csts."
            )
        return self.model


@dataclass(frozen=True)
class Context:
    """Options of one evaluation.

    Attributes:
        memory: the model under test.
        folder: benchmark folder, or None for the hub.
        text: ``senteval`` (tokenised, what the papers use) or ``raw``.
        resamples: bootstrap samples; 0 leaves intervals and tests out.
        seed: for the bootstrap and for fold assignment.
        excluded: keys of pairs that the leak-free figures leave out, or None for no such figures.
        baseline: the model to test against, if any.
    """

    memory: Memory
    folder: Path | None = None
    text: TextForm = "senteval"
    resamples: int = 1000
    seed: int = 0
    excluded: frozenset[Any] | None = None
    baseline: Memory | None = None

    @property
    def pooling(self) -> str | None:
        """The pooling of the model under test, as results name it."""
        pooling = getattr(self.memory.model, "pooling", None)
        return None if pooling is None else str(pooling)
