"""An ensemble: several encoders whose embeddings are added up, saved as one model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tertium.errors import TertiumError
from tertium.explain import Reading, pair_reading
from tertium.files import atomic_folder
from tertium.functional import cosine_pairs
from tertium.models import ENCODERS, Encoder
from tertium.models.encoder import EncodeOptions, Truncation, clipped_cosines, flat_pairs
from tertium.models.explains import Explains
from tertium.models.shares import member_weights
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    read_members,
    write_manifest,
)
from tertium.types import Kind, Pooling, TextPair

__all__ = ["Ensemble", "Member"]


@dataclass(frozen=True)
class Member:
    """An encoder of an ensemble and the factor of its embeddings."""

    encoder: Encoder
    weight: float = 1.0


class Ensemble(Explains):
    """Embeddings of several encoders, weighted and added: ``encode``, ``score``, ``save``.

    Each member reads a text with its own tokenizer and in its own batches, so that an ensemble
    takes as long as its members one after another.

    Args:
        members: encoders of the same width; an ensemble stands for its own members.
        weights: a factor for each (default: 1, the plain sum).
        name: what results call the model.

    Example:
        >>> import tertium
        >>> from tertium.models import Ensemble
        >>> one = tertium.load()
        >>> bool((Ensemble([one]).encode("A cat sleeps.") == one.encode("A cat sleeps.")).all())
        True
    """

    scale: tuple[float, float] = (-1.0, 1.0)

    def __init__(
        self,
        members: Sequence["Encoder | Ensemble"],
        *,
        weights: Sequence[float] | None = None,
        name: str = "ensemble",
    ) -> None:
        if not members:
            raise TertiumError("An ensemble needs at least one model.")
        factors = member_weights(len(members)) if weights is None else weights
        self.name = name
        self.members = tuple(
            member
            for model, factor in zip(members, factors, strict=True)
            for member in _flat(model, float(factor))
        )
        first = self.members[0].encoder
        for encoder in (member.encoder for member in self.members):
            if encoder.dimension != first.dimension:
                raise TertiumError(
                    f"Vectors of different widths cannot be added: {first.name} has "
                    f"{first.dimension}, {encoder.name} has {encoder.dimension}. Bring the one to "
                    "the width of the other: tertium distil MODEL --student … --keep-projection"
                )

    @classmethod
    def load(cls, folder: Path, *, name: str | None = None, **options: Any) -> "Ensemble":
        """Load a folder of kind ``ensemble``; the other options go to every member."""
        manifest = read_manifest(folder)
        if manifest is None or manifest.kind is not Kind.ENSEMBLE:
            raise TertiumError(f"{folder} holds no ensemble.")
        members = read_members(folder, manifest)
        encoders = [_load_member(place, name=entry.name, **options) for place, entry in members]
        weights = [entry.weight for _, entry in members]
        return cls(encoders, weights=weights, name=name or folder.name)

    @property
    def encoder(self) -> Encoder:
        """The only member; what looks into a model, or trains one, cannot take several."""
        if len(self.members) > 1:
            raise TertiumError(
                f"{self.name} is an ensemble of {len(self.members)} models, and this takes a "
                "single one. Name a member, or make one of them: tertium distil "
                f"{self.name} --student MODEL --texts FILE -o DIR"
            )
        return self.members[0].encoder

    @property
    def pooling(self) -> Pooling | None:
        """The pooling that all members have in common, if they do."""
        poolings = {member.encoder.pooling for member in self.members}
        return poolings.pop() if len(poolings) == 1 else None

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.members[0].encoder.dimension

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """What any of the members has seen."""
        seen = [data for member in self.members for data in member.encoder.training_data]
        return tuple(dict.fromkeys(seen))

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["numpy"] = "numpy",
        **options: Unpack[EncodeOptions],
    ) -> NDArray[np.float32]: ...
    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["torch"],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        output: Literal["numpy", "torch"] = "numpy",
        **options: Unpack[EncodeOptions],
    ) -> NDArray[np.float32] | Tensor:
        """One row per text; takes the options of :meth:`Encoder.encode`.

        ``normalize`` scales the sum, not its parts. Cut texts are counted for the member that cuts
        most.
        """
        normalize = options.pop("normalize", False)
        counted = options.pop("truncation", None)
        counts = [Truncation() for _ in self.members]
        parts = []
        for member, count in zip(self.members, counts, strict=True):
            options["truncation"] = count
            parts.append(member.weight * member.encoder.encode(texts, output="torch", **options))
        rows = torch.stack(parts).sum(dim=0)
        if normalize:
            rows = torch.nn.functional.normalize(rows, dim=-1)
        most = max(counts, key=lambda count: count.cut)
        if counted is None:
            most.report()
        else:
            counted.add(cut=most.cut, texts=most.texts, limit=most.limit, unknown=most.unknown)
        return rows if output == "torch" else rows.cpu().numpy()

    def score(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """Cosine of each pair, in input order; takes the options of :meth:`encode`."""
        rows = self.encode(flat_pairs(pairs), output="torch", **options)
        return clipped_cosines(rows[0::2], rows[1::2])

    def score_vectors(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What :meth:`score` makes of two texts' vectors, row by row: their cosine."""
        return self.members[0].encoder.score_vectors(first, second)

    def cosine(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """The same as :meth:`score`."""
        return self.score(pairs, **options)

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: Truncation | None = None
    ) -> NDArray[np.float32]:
        """Scores as an explanation asks for them."""
        return self.score([(a, b) for a, b in items], truncation=truncation)

    def readings(self, item: tuple[str, ...]) -> list[Reading]:
        """A pair as torch reads it, once for every member."""
        members = [(member.encoder, member.weight) for member in self.members]
        return [pair_reading(members, item, cosine_pairs)]

    def save(self, folder: Path | str) -> None:
        """Save every member as a folder of its own inside ``folder``, with their weights."""
        entries = [
            {"folder": f"member-{number}", "name": member.encoder.name, "weight": member.weight}
            for number, member in enumerate(self.members, 1)
        ]
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            for entry, member in zip(entries, self.members, strict=True):
                member.encoder.save(temporary / str(entry["folder"]))
            manifest = Manifest(
                kind=Kind.ENSEMBLE,
                pooling=self.pooling,
                scale=self.scale,
                training_data=self.training_data,
                details={"members": entries},
            )
            write_manifest(temporary, manifest)


def _flat(model: "Encoder | Ensemble", factor: float) -> list[Member]:
    """A sum of sums is a sum."""
    if isinstance(model, Ensemble):
        return [Member(m.encoder, factor * m.weight) for m in model.members]
    return [Member(model, factor)]


def _load_member(folder: Path, **options: Any) -> Encoder:
    if not folder.is_dir():
        raise TertiumError(f"{folder} is missing: the ensemble cannot do without this member.")
    manifest = read_manifest(folder)
    kind = Kind.ENCODER if manifest is None else manifest.kind
    if kind not in ENCODERS:
        raise TertiumError(f"{folder / FILE_NAME}: a member of the kind '{kind}' is no encoder.")
    return ENCODERS[kind].load(folder, **options)
