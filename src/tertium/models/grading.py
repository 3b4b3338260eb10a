"""What all models that take a condition have in common: ``score([(s1, s2, condition), …])``."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tertium.explain import Reading
from tertium.models import Encoder
from tertium.models.encoder import Truncation
from tertium.models.explains import Explains
from tertium.models.triples import BlankConditionWarning, TripleTruncation, checked_triples
from tertium.records.manifest import TrainingData
from tertium.types import Pooling, TextTriple

__all__ = ["Order", "TripleGrader"]

Order = Literal["given", "both"]


class TripleGrader(Explains, ABC):
    """Similarity of two sentences under a condition."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What results call the model."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """The one encoder inside; a model with several raises."""

    @property
    @abstractmethod
    def pooling(self) -> Pooling | None:
        """How tokens become vectors, where there is one way."""

    @property
    @abstractmethod
    def training_data(self) -> tuple[TrainingData, ...]:
        """What the model has seen."""

    @property
    @abstractmethod
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""

    @abstractmethod
    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: Truncation
    ) -> NDArray[np.float32]:
        """Scores of distinct triples, which may lie beyond the scale."""

    @abstractmethod
    def readings(self, item: tuple[str, ...]) -> list[Reading]:
        """A triple as torch reads it, for explanations."""

    @property
    def takes_conditions(self) -> bool:
        """It does."""
        return True

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: Truncation | None = None
    ) -> NDArray[np.float32]:
        """Scores as an explanation asks for them, also beyond the scale."""
        triples = [(a, b, condition) for a, b, condition in items]
        if truncation is None:
            return self.score(triples, within_scale=False)
        places = {triple: at for at, triple in enumerate(dict.fromkeys(triples))}
        graded = self.grade(list(places), progress=None, truncation=truncation)
        return np.asarray(graded[[places[triple] for triple in triples]])

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Save whole, so that :func:`tertium.load` restores it."""

    def score(
        self,
        triples: Iterable[TextTriple],
        *,
        order: Order = "given",
        within_scale: bool = True,
        progress: bool | None = None,
        truncation: Truncation | None = None,
    ) -> NDArray[np.float32]:
        """Similarity of each triple, within the scale, in input order.

        Each distinct triple is scored once, in batches of like length. A blank condition is left
        out and the sentences are compared without one, which one warning per call reports; an empty
        sentence is the model's special tokens alone. What exceeds the model's length is cut, the
        longer sentence first; the condition stays.

        Args:
            triples: two sentences and a condition each.
            order: a cross-encoder may answer differently when the sentences change places;
                ``both`` gives the mean of both answers. Bi- and tri-encoders do not care.
            within_scale: move what lies beyond the scale to its end; without that a half-trained
                model's scores can still be ranked.
            progress: False for no progress on standard error.
            truncation: count cut triples here instead of warning, for a report over several calls.
        """
        checked = checked_triples(triples)
        blank = sum(1 for triple in checked if not triple[2].strip())
        if blank:
            warnings.warn(
                f"{blank} of {len(checked)} triples have no condition; their sentences were "
                "compared without one.",
                BlankConditionWarning,
                stacklevel=2,
            )
        asked = [*checked, *((b, a, c) for a, b, c in checked)] if order == "both" else checked
        places: dict[TextTriple, int] = {}
        at = [places.setdefault(triple, len(places)) for triple in asked]
        counted = TripleTruncation() if truncation is None else truncation
        found = self.grade(list(places), progress=progress, truncation=counted)[at]
        found = found.clip(*self.scale) if within_scale else found
        if truncation is None:
            counted.report()
        return found if order == "given" else found.reshape(2, len(checked)).mean(axis=0)
