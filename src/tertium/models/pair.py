"""A pair scorer: an encoder with a head that grades pairs on the scale of its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from tertium.data.labels import OrderedLabels, read_labels
from tertium.errors import TertiumError
from tertium.files import atomic_folder
from tertium.heads.layout import FEATURES, ModelShape
from tertium.models.adapters import (
    HEAD,
    HeadHolder,
    SavedHead,
    adapted_encoder,
    read_head,
    write_adapter,
)
from tertium.models.base import Embedder, EncodeOptions, Member, cosine_rows, digest
from tertium.models.checkpoints import Arrays
from tertium.models.fingerprint import arrays_digest
from tertium.models.light import load_encoder
from tertium.models.text_encoder import TextEncoder
from tertium.records.manifest import FILE_NAME, Manifest, read_manifest, write_manifest
from tertium.types import Kind, Pooling, TextPair

if TYPE_CHECKING:
    from torch import Tensor

    from tertium.heads import PairHead

__all__ = ["GRADES", "PairScorer"]

Matrix = NDArray[np.float32]


def _cosine(config: Mapping[str, Any], weights: Arrays, u: Matrix, v: Matrix) -> Matrix:
    return (weights["slope"] * cosine_rows(u, v) + weights["offset"])[:, None]


def _siamese(config: Mapping[str, Any], weights: Arrays, u: Matrix, v: Matrix) -> Matrix:
    joined = np.concatenate([FEATURES[name](u, v) for name in config["features"]], axis=1)
    return np.asarray(joined @ weights["dense.weight"].T + weights["dense.bias"])


# Scores ``[n, k]`` of pairs of vectors, from a head's configuration and weights, by its kind.
# Other heads are run by torch.
GRADES: dict[str, Callable[[Mapping[str, Any], Arrays, Matrix, Matrix], Matrix]] = {
    "siamese": _siamese,
    "cosine": _cosine,
}


class PairScorer(Embedder):
    """Graded similarity: ``score`` on the label scale, ``classify``, ``encode``.

    Args:
        encoder: computes the vectors.
        head: compares them: a torch module, or a saved head.
        labels: the scale of scores.

    Example:
        >>> import tertium
        >>> scorer = tertium.load("sts")
        >>> scorer.score([("A cat sleeps.", "A cat is asleep.")]) > 4
        array([ True])
    """

    kind = Kind.PAIR
    members: tuple[Member, ...] = ()

    def __init__(
        self, encoder: TextEncoder, head: PairHead | SavedHead, labels: OrderedLabels
    ) -> None:
        self.members = (Member(encoder),)
        given = head if isinstance(head, SavedHead) else head.eval()
        self._head: HeadHolder[PairHead] = HeadHolder(given, self._built)
        self.labels = labels

    @classmethod
    def load(cls, folder: Path, *, manifest: Manifest | None = None, **options: Any) -> PairScorer:
        """Load a folder of kind ``pair``; takes the options of :meth:`Encoder.load`."""
        manifest = manifest or read_manifest(folder)
        return cls.attach(load_encoder(folder, manifest=manifest, **options), folder, manifest)

    @classmethod
    def load_adapter(
        cls,
        folder: Path,
        encoder: TextEncoder,
        *,
        manifest: Manifest | None = None,
        pooling: Pooling | None = None,
    ) -> PairScorer:
        """Apply to ``encoder`` what :meth:`save_adapter` saved."""
        manifest = _checked(manifest or read_manifest(folder), folder)
        adapted, _ = adapted_encoder(encoder, folder, manifest, pooling=pooling)
        return cls.attach(adapted, folder, manifest)

    @classmethod
    def attach(cls, encoder: TextEncoder, folder: Path, manifest: Manifest | None) -> PairScorer:
        """``encoder`` with the head and labels in ``folder``."""
        details = _checked(manifest, folder).details
        width = encoder.dimension
        shape = ModelShape(dimension=width, embedding=width, heads=0, depth=0)
        saved = read_head(folder, details["head"], shape)
        labels = read_labels(details.get("labels"), folder / FILE_NAME)
        scorer = cls(encoder, saved, labels)
        if saved.config["kind"] not in GRADES:
            _ = scorer.head  # raises now if something is wrong with it
        return scorer

    @property
    def head(self) -> PairHead:
        """The head as a torch module, made on first use."""
        return self._head.module

    def _built(self, config: dict[str, Any]) -> PairHead:
        from tertium.heads import HEADS

        head = HEADS[config.pop("kind")](dimension=self.dimension, **config)
        return head.to(self.encoder.device)

    @property
    def name(self) -> str:
        """The model's name in results."""
        return str(self._reader.name)

    @property
    def dimension(self) -> int:
        """Width of an embedding."""
        return int(self._reader.dimension)

    @property
    def scale(self) -> tuple[float, float]:
        """Lowest and highest label."""
        return self.labels.low, self.labels.high

    @property
    def fingerprint(self) -> str:
        """The hash of everything that its scores depend on: encoder, head and labels."""
        description = [self._head.config, self.scale, self.labels.step]
        return digest([super().fingerprint, arrays_digest(self._head.weights, description)])

    def encode(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Embeddings; see :meth:`Encoder.encode`."""
        return self._reader.encode(texts, **options)

    def classify(
        self, pairs: Iterable[TextPair], **options: Unpack[EncodeOptions]
    ) -> list[str] | list[float]:
        """The label nearest to each pair's score."""
        return self.labels.nearest(self.score(pairs, **options))

    def compare(self, first: Tensor, second: Tensor) -> Tensor:
        """The same as :meth:`grade_vectors`, in torch and with gradients."""
        import torch

        scores: Tensor = self.head(first, second)
        if scores.shape[1] > 1:
            values = torch.arange(scores.shape[1], device=scores.device) * self.labels.step
            scores = scores.softmax(dim=1) @ (self.labels.low + values)[:, None]
        return scores.squeeze(1)

    def grade_vectors(self, first: Matrix, second: Matrix) -> Matrix:
        """The head's scores, not clipped to the scale; for a classifier, the expected label."""
        config = self._head.config
        if config["kind"] not in GRADES:
            return self._grade_by_torch(first, second)
        u, v = (np.asarray(side, np.float32) for side in (first, second))
        scores = GRADES[config["kind"]](config, self._head.weights, u, v)
        if scores.shape[1] > 1:
            likely = np.exp(scores - scores.max(axis=1, keepdims=True))
            labels = self.labels.low + np.arange(scores.shape[1]) * self.labels.step
            return np.asarray(likely @ labels / likely.sum(axis=1), np.float32)
        return np.asarray(scores[:, 0], np.float32)

    def _grade_by_torch(self, first: Matrix, second: Matrix) -> Matrix:
        import torch

        with torch.inference_mode():
            sides = (torch.from_numpy(np.array(side)) for side in (first, second))
            u, v = (side.to(self.encoder.device) for side in sides)
            return np.asarray(self.compare(u, v).cpu().numpy())

    def _grade_matrix(self, first: Matrix, second: Matrix) -> Matrix:
        rows = [self.grade_vectors(np.broadcast_to(row, second.shape), second) for row in first]
        return np.asarray(rows, dtype=np.float32).reshape(len(first), len(second))

    def save(self, folder: Path | str) -> None:
        """Save as a sentence-transformers folder that also contains the head."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            self.encoder.write(temporary)
            save_file(self._head.weights, temporary / HEAD)
            write_manifest(temporary, self._manifest())

    def save_adapter(
        self, folder: Path | str, adapter: Mapping[str, ArrayLike], *, base: str
    ) -> None:
        """Save only the difference from ``base``, a reserved name or a hub id."""
        with atomic_folder(Path(folder), last=FILE_NAME) as temporary:
            write_adapter(adapter, temporary)
            save_file(self._head.weights, temporary / HEAD)
            details = {"normalize": self._reader.normalizes, "max_length": self._reader.max_length}
            write_manifest(temporary, self._manifest(base=base, **details))

    def _manifest(self, **details: Any) -> Manifest:
        known = {"head": self._head.config, "labels": self.labels.to_json(), **self._decided()}
        return super()._manifest(**known, **details)

    @property
    def _reader(self) -> Any:
        """The encoder, whatever runs it."""
        return self.members[0].model


def _checked(manifest: Manifest | None, folder: Path) -> Manifest:
    if manifest is None or manifest.kind is not Kind.PAIR:
        raise TertiumError(f"{folder} does not contain a pair scorer.")
    return manifest
