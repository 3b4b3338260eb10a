"""Several models that take a condition as one: the mean of their answers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError
from tertium.explain import Focus, Reading
from tertium.files import atomic_folder
from tertium.heads import SeaverHead
from tertium.models import Encoder
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import Truncation
from tertium.models.grading import TripleGrader
from tertium.models.triples import TripleTruncation
from tertium.records.manifest import FILE_NAME, Manifest, TrainingData, write_manifest
from tertium.types import Kind, Pooling, TextTriple

__all__ = ["ConditionalAverage"]


class ConditionalAverage(TripleGrader):
    """The weighted mean of what several conditional models answer.

    A cross-encoder and a bi-encoder err differently, so that their mean is often better than
    either; it takes as long as both.

    Args:
        members: models with the same scale.
        weights: a share for each, scaled to sum to 1 (default: equal shares).
        name: what results call the model.
    """

    def __init__(
        self,
        members: Sequence[TripleGrader],
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
        self.members = tuple(members)
        self.weights = tuple(share / sum(shares) for share in shares)
        self._name = name

    @property
    def name(self) -> str:
        """What results call the model."""
        return self._name

    @property
    def scorers(self) -> tuple[ConditionalScorer, ...]:
        """All models inside, those of averages inside included."""
        found: list[ConditionalScorer] = []
        for member in self.members:
            found += member.scorers if isinstance(member, ConditionalAverage) else []
            found += [member] if isinstance(member, ConditionalScorer) else []
        return tuple(found)

    @property
    def encoder(self) -> Encoder:
        """The only member's; what looks into a model cannot take several."""
        if len(self.members) > 1:
            raise TertiumError(
                f"{self.name} is an average of {len(self.members)} models, and this takes a "
                "single one. Name a member."
            )
        return self.members[0].encoder

    @property
    def pooling(self) -> Pooling | None:
        """The pooling that all members have in common, if they do."""
        poolings = {member.pooling for member in self.members}
        return poolings.pop() if len(poolings) == 1 else None

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """What any of the members has seen."""
        return tuple(dict.fromkeys(d for member in self.members for d in member.training_data))

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.members[0].scale

    def grade(
        self, triples: list[TextTriple], *, progress: bool | None, truncation: Truncation
    ) -> NDArray[np.float32]:
        """Weighted mean; cut triples are counted for the member that cuts most."""
        counts = [TripleTruncation() for _ in self.members]
        answers = [
            member.grade(triples, progress=progress, truncation=count)
            for member, count in zip(self.members, counts, strict=True)
        ]
        most = max(counts, key=lambda count: count.cut)
        truncation.add(cut=most.cut, texts=most.texts, limit=most.limit, unknown=most.unknown)
        return np.average(answers, axis=0, weights=self.weights).astype(np.float32)

    def readings(self, item: tuple[str, ...]) -> list[Reading]:
        """A triple as each member reads it."""
        return [
            replace(reading, weight=weight * reading.weight)
            for member, weight in zip(self.members, self.weights, strict=True)
            for reading in member.readings(item)
        ]

    def focused(self, item: tuple[str, ...]) -> Focus | None:
        """That of a member which reallocates attention, else of any that shows it."""
        order = sorted(self.scorers, key=lambda scorer: not isinstance(scorer.head, SeaverHead))
        found = (scorer.focused(item) for scorer in order)
        return next((shown for shown in found if shown is not None), None)

    def save(self, folder: Path | str) -> None:
        """Save every member as a folder of its own inside ``folder``, with their weights.

        A member that was loaded as an adapter is saved as one.
        """
        entries = [
            {"folder": f"member-{number}", "name": member.name, "weight": weight}
            for number, (member, weight) in enumerate(
                zip(self.members, self.weights, strict=True), 1
            )
        ]
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            for entry, member in zip(entries, self.members, strict=True):
                _save_member(member, temporary / str(entry["folder"]))
            manifest = Manifest(
                kind=Kind.CONDITIONAL,
                pooling=self.pooling,
                scale=self.scale,
                training_data=self.training_data,
                details={"members": entries},
            )
            write_manifest(temporary, manifest)


def _save_member(member: TripleGrader, folder: Path) -> None:
    if isinstance(member, ConditionalScorer) and member.adapter and member.base:
        member.save_adapter(folder, member.adapter, base=member.base)
    else:
        member.save(folder)
