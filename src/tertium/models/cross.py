"""Cross-encoders of pairs: both texts are read together, and there are no vectors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tertium.data.labels import OrderedLabels
from tertium.models.base import Member, Model, Order
from tertium.models.conditional import ConditionalScorer
from tertium.models.passages import Span
from tertium.models.text_encoder import TextEncoder
from tertium.models.tokens import TokenizationStats, checked_pairs, unique
from tertium.records.manifest import Manifest
from tertium.types import Kind, Pooling, TextPair

__all__ = ["CrossModel", "CrossScorer"]

Matrix = NDArray[np.float32]


class CrossModel(Model):
    """A model that reads both texts of a pair together."""

    kind = Kind.CROSS
    reads_together: ClassVar[bool] = True

    def score(  # type: ignore[override]
        self,
        items: Iterable[TextPair],
        *,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
    ) -> Matrix:
        """Scores of pairs, within the scale, in input order.

        Args:
            items: two texts each; each distinct pair is scored once.
            progress: False for no progress on standard error.
            truncation: count cut pairs here instead of warning.
        """
        return self._graded(checked_pairs(items), truncation, progress=progress).clip(*self.scale)

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: TokenizationStats | None = None
    ) -> Matrix:
        """Scores of pairs, not clipped to the scale."""
        return self._graded([(a, b) for a, b in items], truncation)

    def _graded(
        self,
        pairs: list[TextPair],
        truncation: TokenizationStats | None,
        *,
        progress: bool | None = None,
    ) -> Matrix:
        """Grade every distinct pair once; long texts by every pair of passages."""
        stats = TokenizationStats(unit="pair") if truncation is None else truncation
        distinct, rows = unique(pairs)
        grade = partial(self._grade, progress=progress, stats=stats)
        alignment = self.align(distinct)
        found = grade(distinct) if alignment is None else alignment.score(grade)
        stats.cut += 0 if alignment is None else alignment.cut
        if truncation is None:
            stats.report()
        return np.asarray(found[rows], np.float32)

    @abstractmethod
    def _grade(
        self, pairs: list[TextPair], *, progress: bool | None, stats: TokenizationStats
    ) -> Matrix:
        """Scores of distinct pairs, not clipped to the scale."""


class CrossScorer(CrossModel):
    """Scores of pairs on the scale of its labels, by a head that reads both texts together.

    It wraps a :class:`ConditionalScorer` and gives it no condition, so engines, adapters and
    folders are the same.

    Args:
        scorer: a scorer whose head reads one sequence, such as ``cross``.
        order: ``both`` reads every pair in both orders and takes the mean, so that it does not
            matter which text comes first; ``given`` reads it once.

    Example:
        >>> import tertium
        >>> judge = tertium.load("judge")
        >>> judge.score([("He is asleep.", "He is not asleep.")]) > 0.5
        array([ True])
    """

    def __init__(self, scorer: ConditionalScorer, *, order: Order = "both") -> None:
        scorer.folder_kind, scorer.details = Kind.CROSS, {"order": order}
        self._scorer = scorer
        self.order = order

    @classmethod
    def load(cls, folder: Path, *, manifest: Manifest, **options: Any) -> CrossScorer:
        """Load a folder of kind ``cross``; takes the options of :meth:`Encoder.load`."""
        found = ConditionalScorer.load(folder, manifest=manifest, **options)
        return cls(found, order=_order(manifest))

    @classmethod
    def load_adapter(
        cls,
        folder: Path,
        encoder: TextEncoder,
        *,
        manifest: Manifest,
        pooling: Pooling | None = None,
    ) -> CrossScorer:
        """Apply to ``encoder`` what :meth:`save_adapter` saved."""
        found = ConditionalScorer.load_adapter(folder, encoder, manifest=manifest, pooling=pooling)
        return cls(found, order=_order(manifest))

    @property
    def name(self) -> str:
        """The model's name in results."""
        return self._scorer.name

    @property
    def labels(self) -> OrderedLabels:
        """The scale of scores."""
        return self._scorer.labels

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self._scorer.scale

    @property
    def members(self) -> tuple[Member, ...]:
        """The scorer inside."""
        return (Member(self._scorer),)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its scores depend on."""
        return f"{super().fingerprint}-{self.order}"

    def save(self, folder: Path | str) -> None:
        """Save the whole model; sentence-transformers loads the folder as a ``CrossEncoder``."""
        self._scorer.save(folder)

    def save_adapter(self, folder: Path | str, adapter: Any, *, base: str) -> None:
        """Save only the difference from ``base``, a reserved name or a hub id."""
        self._scorer.save_adapter(folder, adapter, base=base)

    def save_member(self, folder: Path) -> None:
        """Save inside another model; an adapter stays an adapter."""
        self._scorer.save_member(folder)

    def _grade(
        self, pairs: list[TextPair], *, progress: bool | None, stats: TokenizationStats
    ) -> Matrix:
        """In one order or both."""
        asked = [(a, b, "") for a, b in pairs]
        if self.order == "both":
            asked += [(b, a, "") for a, b in pairs]
        found = self._scorer.grade(asked, progress=progress, truncation=stats)
        return found.reshape(-1, len(pairs)).mean(axis=0) if asked else found

    def _passages(
        self, items: Sequence[tuple[str, ...]], prompt: str | None = None
    ) -> list[list[Span]]:
        return self._scorer._passages([(a, b, "") for a, b in items])


def _order(manifest: Manifest) -> Order:
    return "given" if manifest.details.get("order") == "given" else "both"
