"""Several models as one: the sum of their embeddings, or the mean of their conditional scores."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.models.base import Embedder, EncodeOptions, Member, Model, TripleScorer, unit_rows
from tertium.models.passages import Span
from tertium.models.tokens import TokenizationStats
from tertium.records.manifest import FILE_NAME, MemberEntry, write_manifest
from tertium.types import Kind, TextTriple

__all__ = ["ConditionalAverage", "Ensemble", "member_weights"]


def member_weights(count: int, last: float | None = None) -> list[float]:
    """Weights of ``count`` members: 1 each, or JTCSE-UC's if the last one has its own weight.

    With ``last = w`` the embedding is (1 - w) times the sum of the others plus w times the last
    (JTCSE, Zong et al., 2025; its authors use w = 0.7).

    >>> member_weights(3)
    [1.0, 1.0, 1.0]
    >>> member_weights(3, 0.75)
    [0.25, 0.25, 0.75]
    """
    if last is None:
        return [1.0] * count
    if count < 2:
        raise TertiumError("A weight for the last model needs at least two models.")
    if not (math.isfinite(last) and 0 < last < 1):
        raise TertiumError(f"The weight of the last model must be between 0 and 1, got {last:g}.")
    return [1 - last] * (count - 1) + [last]


class _Mixture(Model):
    """Weighted members, saved as folders inside one; mixtures of mixtures are flattened."""

    name: str = ""
    members: tuple[Member, ...] = ()

    def __init__(self, models: Sequence[Model], weights: Sequence[float], name: str) -> None:
        self.name = name
        self.members = tuple(
            Member(member.model, float(factor) * member.weight)
            for model, factor in zip(models, weights, strict=True)
            for member in model.members
        )

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each member."""
        return tuple(member.weight for member in self.members)

    def save(self, folder: Path | str) -> None:
        """Save every member in a subfolder of ``folder``, together with the weights.

        A member that was loaded from an adapter is saved as one.
        """
        entries = [
            MemberEntry(folder=f"member-{number}", name=each.model.name, weight=each.weight)
            for number, each in enumerate(self.members, 1)
        ]
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            for entry, each in zip(entries, self.members, strict=True):
                each.model.save_member(temporary / entry.folder)
            members = [entry.model_dump() for entry in entries]
            write_manifest(temporary, self._manifest(members=members, **self._decided()))


class Ensemble(_Mixture, Embedder):
    """The weighted sum of several encoders' embeddings: ``encode``, ``score``, ``save``.

    Each member reads a text with its own tokenizer and in its own batches, so an ensemble takes as
    long as its members one after another.

    Args:
        members: models with embeddings of the same width; an ensemble contributes its members.
        weights: a weight for each (default: 1, the plain sum).
        name: the model's name in results.

    Example:
        >>> import tertium
        >>> from tertium.models import Ensemble
        >>> one = tertium.load()
        >>> bool((Ensemble([one]).encode("A cat sleeps.") == one.encode("A cat sleeps.")).all())
        True
    """

    kind = Kind.ENSEMBLE

    def __init__(
        self,
        members: Sequence[Embedder],
        *,
        weights: Sequence[float] | None = None,
        name: str = "ensemble",
    ) -> None:
        if not members:
            raise TertiumError("An ensemble needs at least one model.")
        factors = member_weights(len(members)) if weights is None else weights
        super().__init__(members, factors, name)
        first = self.readers[0]
        for encoder in self.readers:
            if encoder.dimension != first.dimension:
                raise TertiumError(
                    f"Vectors of different widths cannot be added: {first.name} has "
                    f"{first.dimension}, {encoder.name} has {encoder.dimension}. Distil one to the "
                    "width of the other: tertium distil MODEL --student … --keep-projection"
                )

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.readers[0].dimension

    def encode(  # type: ignore[override]
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["numpy", "torch"] = "numpy",
        convert_to_tensor: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> Any:
        """One row per text; takes the options of :meth:`Encoder.encode`.

        ``normalize`` scales the sum, not its parts. Cut texts are those of the member that cuts
        the most.
        """
        asked = options.pop("normalize", False), options.pop("normalize_embeddings", False)
        counted = options.pop("truncation", None)
        counts = [TokenizationStats() for _ in self.members]
        parts = []
        for member, count in zip(self.members, counts, strict=True):
            options["truncation"] = count
            parts.append(member.weight * member.model.encode(texts, **options))
        rows = np.sum(parts, axis=0)
        if any(asked):
            rows = unit_rows(np.atleast_2d(rows)).reshape(rows.shape)
        stats = TokenizationStats() if counted is None else counted
        stats.add_most(counts)
        if counted is None:
            stats.report()
        if output == "numpy" and not convert_to_tensor:
            return rows
        import torch

        return torch.from_numpy(rows)


class ConditionalAverage(_Mixture, TripleScorer):
    """The weighted mean of several conditional models' scores.

    A cross-encoder and a bi-encoder make different errors, so their mean is often better than
    either; it takes as long as both.

    Args:
        members: models with the same scale.
        weights: a weight for each, scaled to sum to 1 (default: equal weights).
        name: the model's name in results.
    """

    def __init__(
        self,
        members: Sequence[TripleScorer],
        *,
        weights: Sequence[float] | None = None,
        name: str = "average",
    ) -> None:
        if not members:
            raise TertiumError("An average needs at least one model.")
        shares = [1.0] * len(members) if weights is None else list(weights)
        if len(shares) != len(members) or not all(share > 0 for share in shares):
            raise TertiumError("An average needs one positive weight for each model.")
        scales = {member.scale for member in members}
        if len(scales) > 1:
            shown = ", ".join(f"{low:g} to {high:g}" for low, high in sorted(scales))
            raise TertiumError(f"Models with different scales cannot be averaged: {shown}.")
        super().__init__(members, [share / sum(shares) for share in shares], name)

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        low, high = self.members[0].model.scale
        return low, high

    def _passages(
        self, items: Sequence[tuple[str, ...]], prompt: str | None = None
    ) -> list[list[Span]]:
        """Those of the member with the shortest limit."""
        each = (member.model._passages(items) for member in self.members)
        return [max(spans, key=len) for spans in zip(*each, strict=True)]

    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: TokenizationStats
    ) -> NDArray[np.float32]:
        """The weighted mean; cut triples are those of the member that cuts the most."""
        counts = [TokenizationStats() for _ in self.members]
        answers = [
            member.model.grade(triples, progress=progress, truncation=count)
            for member, count in zip(self.members, counts, strict=True)
        ]
        truncation.add_most(counts)
        return np.average(answers, axis=0, weights=self.weights).astype(np.float32)
