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
from tertium.files import atomic_folder
from tertium.heads import HEADS, PairHead
from tertium.models.adapters import ADAPTER, HEAD, adapted_encoder, load_head
from tertium.models.base import Embedder, EncodeOptions, Member, digest
from tertium.models.encoder import Encoder
from tertium.models.fingerprint import weights_digest
from tertium.models.light import load_encoder
from tertium.records.manifest import FILE_NAME, Manifest, read_manifest, write_manifest
from tertium.types import Kind, Pooling, TextPair

__all__ = ["PairScorer"]

Matrix = NDArray[np.float32]


class PairScorer(Embedder):
    """Graded similarity: ``score`` on the label scale, ``classify``, ``encode``.

    Example:
        >>> import tertium
        >>> scorer = tertium.load("sts")
        >>> scorer.score([("A cat sleeps.", "A cat is asleep.")]) > 4
        array([ True])
    """

    def __init__(self, encoder: Encoder, head: PairHead, labels: OrderedLabels) -> None:
        self._members = (Member(encoder),)
        self.head = head.eval()
        self.labels = labels

    @classmethod
    def load(
        cls, folder: Path, *, manifest: Manifest | None = None, **options: Any
    ) -> "PairScorer":
        """Load a folder of kind ``pair``; takes the options of :meth:`Encoder.load`."""
        manifest = manifest or read_manifest(folder)
        return cls._attach(load_encoder(folder, manifest=manifest, **options), folder, manifest)

    @classmethod
    def load_adapter(
        cls,
        folder: Path,
        encoder: Encoder,
        *,
        manifest: Manifest | None = None,
        pooling: Pooling | None = None,
    ) -> "PairScorer":
        """Change ``encoder`` to what :meth:`save_adapter` saved."""
        manifest = _checked(manifest or read_manifest(folder), folder)
        adapted, _ = adapted_encoder(encoder, folder, manifest, pooling=pooling)
        return cls._attach(adapted, folder, manifest)

    @classmethod
    def _attach(cls, encoder: Encoder, folder: Path, manifest: Manifest | None) -> "PairScorer":
        """Give ``encoder`` the head and labels that ``folder`` holds."""
        details = _checked(manifest, folder).details
        config = dict(details["head"])
        head = HEADS[config.pop("kind")](dimension=encoder.dimension, **config)
        load_head(head, folder / HEAD)
        labels = read_labels(details.get("labels"), folder / FILE_NAME)
        return cls(encoder, head.to(encoder.device), labels)

    @property
    def name(self) -> str:
        """What results call the model."""
        return self.readers[0].name

    @property
    def kind(self) -> Kind:
        """What ``tertium.json`` calls it."""
        return Kind.PAIR

    @property
    def members(self) -> tuple[Member, ...]:
        """The encoder."""
        return self._members

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return self.readers[0].dimension

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.labels.low, self.labels.high

    @property
    def fingerprint(self) -> str:
        """The hash of all that decides about its scores: encoder, head and labels."""
        head = weights_digest(self.head, [self.head.config(), self.scale, self.labels.step])
        return digest([super().fingerprint, head])

    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Embeddings, as :meth:`Encoder.encode` gives them."""
        return self.readers[0].encode(texts, **options)

    def classify(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> list[str] | list[float]:
        """The label nearest to each pair's score."""
        return self.labels.nearest(self.score(pairs, **options))

    def compare(self, first: Tensor, second: Tensor) -> Tensor:
        """The head's scores, with gradients; of a classifier the expected label."""
        scores: Tensor = self.head(first, second)
        if scores.shape[1] > 1:
            values = torch.arange(scores.shape[1], device=scores.device) * self.labels.step
            scores = scores.softmax(dim=1) @ (self.labels.low + values)[:, None]
        return scores.squeeze(1)

    @torch.inference_mode()
    def grade_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """What the head makes of two texts' vectors, also beyond the scale."""
        sides = (torch.from_numpy(np.array(side)) for side in (first, second))
        u, v = (side.to(self.encoder.device) for side in sides)
        return np.asarray(self.compare(u, v).cpu().numpy())

    def _grade_matrix(self, first: Matrix, second: Matrix) -> Matrix:
        rows = [self.grade_vectors(np.broadcast_to(row, second.shape), second) for row in first]
        return np.asarray(rows, dtype=np.float32).reshape(len(first), len(second))

    def save(self, folder: Path | str) -> None:
        """Save as a sentence-transformers folder that also holds the head."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.encoder.write(temporary)
            save_file(self.head.state_dict(), temporary / HEAD)
            write_manifest(temporary, self._manifest())

    def save_adapter(self, folder: Path | str, adapter: dict[str, Tensor], *, base: str) -> None:
        """Save only what differs from the model ``base``, a reserved name or a hub id."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            save_file(adapter, temporary / ADAPTER)
            save_file(self.head.state_dict(), temporary / HEAD)
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


def _checked(manifest: Manifest | None, folder: Path) -> Manifest:
    if manifest is None or manifest.kind is not Kind.PAIR:
        raise TertiumError(f"{folder} holds no pair scorer.")
    return manifest
