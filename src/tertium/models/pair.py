"""A pair scorer: an encoder with a head that grades pairs on the scale of its labels."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from tertium.data.labels import OrderedLabels, read_labels
from tertium.errors import TertiumError
from tertium.explain import Reading, pair_reading
from tertium.files import atomic_folder
from tertium.heads import HEADS, PairHead
from tertium.models import Encoder
from tertium.models.adapter import ADAPTER, load_adapter
from tertium.models.encoder import EncodeOptions, Truncation, clipped_cosines, flat_pairs
from tertium.models.explains import Explains
from tertium.models.weights import read_tensors
from tertium.records.manifest import (
    FILE_NAME,
    Manifest,
    TrainingData,
    read_manifest,
    write_manifest,
)
from tertium.types import Kind, Pooling, TextPair

__all__ = ["PairScorer"]

_HEAD = "head.safetensors"


class PairScorer(Explains):
    """Graded similarity: ``score`` on the label scale, ``classify``, ``encode``.

    Example:
        >>> import tertium
        >>> scorer = tertium.load("sts")
        >>> scorer.score([("A cat sleeps.", "A cat is asleep.")]) > 4
        array([ True])
    """

    def __init__(self, encoder: Encoder, head: PairHead, labels: OrderedLabels) -> None:
        self.encoder = encoder
        self.head = head.eval()
        self.labels = labels

    @classmethod
    def load(cls, folder: Path, **options: Any) -> "PairScorer":
        """Load a folder of kind ``pair``; takes the options of :meth:`Encoder.load`."""
        return cls.attach(Encoder.load(folder, **options), folder)

    @classmethod
    def load_adapter(
        cls, folder: Path, encoder: Encoder, *, pooling: Pooling | None = None
    ) -> "PairScorer":
        """Change ``encoder`` to what :meth:`save_adapter` saved."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise TertiumError(f"{folder} holds no pair scorer.")
        pooling = pooling or manifest.pooling
        if pooling is not None:
            encoder = encoder.with_pooling(pooling, normalize=manifest.details.get("normalize"))
        load_adapter(encoder.backbone, folder / ADAPTER)
        encoder.training_data = manifest.training_data
        return cls.attach(encoder, folder)

    @classmethod
    def attach(cls, encoder: Encoder, folder: Path) -> "PairScorer":
        """Give ``encoder`` the head and labels that ``folder`` holds."""
        manifest = read_manifest(folder)
        if manifest is None or manifest.kind is not Kind.PAIR:
            raise TertiumError(f"{folder} holds no pair scorer.")
        config = dict(manifest.details["head"])
        head = HEADS[config.pop("kind")](dimension=encoder.dimension, **config)
        try:
            head.load_state_dict(read_tensors(folder / _HEAD))
        except RuntimeError as error:
            raise TertiumError(f"{folder / _HEAD} does not fit the head in {FILE_NAME}.") from error
        labels = read_labels(manifest.details.get("labels"), folder / FILE_NAME)
        return cls(encoder, head.to(encoder.device), labels)

    @property
    def name(self) -> str:
        """What results call the model."""
        return self.encoder.name

    @property
    def pooling(self) -> Pooling | None:
        """The encoder's pooling."""
        return self.encoder.pooling

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.encoder.dimension

    @property
    def training_data(self) -> tuple[TrainingData, ...]:
        """What the model has seen."""
        return self.encoder.training_data

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.labels.low, self.labels.high

    def encode(
        self, texts: str | Sequence[str], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """Embeddings, as :meth:`Encoder.encode` gives them."""
        return self.encoder.encode(texts, **options)

    def score(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """Graded similarity of each pair, within the scale."""
        return self._within_scale(*self._sides(pairs, options))

    def score_vectors(
        self, first: NDArray[np.float32], second: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What :meth:`score` makes of two texts' vectors, row by row."""
        sides = (torch.from_numpy(np.ascontiguousarray(side)) for side in (first, second))
        u, v = (side.to(self.encoder.device) for side in sides)
        return self._within_scale(u, v)

    def cosine(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> NDArray[np.float32]:
        """Cosine of each pair's embeddings."""
        return clipped_cosines(*self._sides(pairs, options))

    def classify(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> list[str] | list[float]:
        """The label nearest to each pair's score."""
        return self.labels.nearest(self.score(pairs, **options))

    def score_items(
        self, items: Sequence[tuple[str, ...]], *, truncation: Truncation | None = None
    ) -> NDArray[np.float32]:
        """Scores as an explanation asks for them, also beyond the scale."""
        return self._graded(*self._sides([(a, b) for a, b in items], {"truncation": truncation}))

    def readings(self, item: tuple[str, ...]) -> list[Reading]:
        """A pair as torch reads it."""
        return [pair_reading([(self.encoder, 1.0)], item, self._grades)]

    def save(self, folder: Path | str) -> None:
        """Save as a sentence-transformers folder that also holds the head."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.encoder.write(temporary)
            save_file(self.head.state_dict(), temporary / _HEAD)
            write_manifest(temporary, self._manifest())

    def save_adapter(self, folder: Path | str, adapter: dict[str, Tensor], *, base: str) -> None:
        """Save only what differs from the model ``base``, a reserved name or a hub id."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            save_file(adapter, temporary / ADAPTER)
            save_file(self.head.state_dict(), temporary / _HEAD)
            details = {"normalize": self.encoder.normalizes, "max_length": self.encoder.max_length}
            write_manifest(temporary, self._manifest(base=base, **details))

    def _manifest(self, **details: Any) -> Manifest:
        low, high = self.scale
        labels = {"low": low, "high": high, "step": self.labels.step}
        names = {} if self.labels.names is None else {"names": list(self.labels.names)}
        return Manifest(
            kind=Kind.PAIR,
            pooling=self.pooling,
            scale=self.scale,
            training_data=self.training_data,
            details={"head": self.head.config(), "labels": labels | names, **details},
        )

    def _within_scale(self, first: Tensor, second: Tensor) -> NDArray[np.float32]:
        return self._graded(first, second).clip(*self.scale)

    @torch.inference_mode()
    def _graded(self, first: Tensor, second: Tensor) -> NDArray[np.float32]:
        return np.asarray(self._grades(first, second).cpu().numpy())

    def _grades(self, first: Tensor, second: Tensor) -> Tensor:
        scores: Tensor = self.head(first, second)
        if scores.shape[1] > 1:  # a classifier: the expected label
            values = torch.arange(scores.shape[1], device=scores.device) * self.labels.step
            scores = scores.softmax(dim=1) @ (self.labels.low + values)[:, None]
        return scores.squeeze(1)

    def _sides(self, pairs: Iterable[TextPair], options: EncodeOptions) -> tuple[Tensor, Tensor]:
        rows = self.encoder.encode(flat_pairs(pairs), output="torch", **options)
        return rows[0::2], rows[1::2]
