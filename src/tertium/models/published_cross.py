"""Cross-encoders that sentence-transformers saved, as they are: their activation, their scale."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tertium.errors import TertiumError, TertiumWarning
from tertium.models.base import Model
from tertium.models.tokenizer import NotLightError, read_json
from tertium.models.tokens import TokenizationStats, checked_pairs
from tertium.types import Kind, TextPair

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

__all__ = ["PublishedCrossEncoder", "is_cross_encoder"]

Matrix = NDArray[np.float32]
_BATCH = 32


def is_cross_encoder(folder: Path) -> bool:
    """Whether a folder holds what ``CrossEncoder`` of sentence-transformers saves or loads.

    Older versions, and transformers itself, leave only the name of a classifier in the config.
    """
    saved_as = read_json(folder / "config_sentence_transformers.json").get("model_type")
    if saved_as is not None or (folder / "modules.json").exists():
        return bool(saved_as == "CrossEncoder")
    architectures = read_json(folder / "config.json").get("architectures") or ()
    return any("ForSequenceClassification" in str(name) for name in architectures)


class PublishedCrossEncoder(Model):
    """Scores of pairs by a cross-encoder with one output, run by torch.

    Its scores are those of ``CrossEncoder.predict``. With a sigmoid they go from 0 to 1. A model
    without activation gives logits, which have no scale: tertium gives their sigmoid, in the same
    order, and says so.

    Args:
        model: as sentence-transformers loads it.
        name: what results call it.
        folder: where it is from.

    Attributes:
        activation: what makes a score of the model's output, by its name.
    """

    reads_together: ClassVar[bool] = True

    def __init__(self, model: CrossEncoder, *, name: str, folder: Path) -> None:
        outputs = getattr(model.config, "num_labels", None)
        if outputs != 1:
            raise TertiumError(
                f"{folder} holds a classifier of {outputs} classes: a model that grades pairs has "
                "one output."
            )
        self._model = model
        self._name = name
        self._folder = folder
        self.activation = type(model.activation_fn).__name__
        if self.activation not in ("Sigmoid", "Identity"):
            raise TertiumError(
                f"{folder}: the activation {self.activation} has no scale that tertium knows. Save "
                "the model with a sigmoid, or with none."
            )
        if self.activation == "Identity":
            warnings.warn(
                f"{name} gives logits, which have no scale: their sigmoid is given, from 0 to 1, "
                "in the same order.",
                TertiumWarning,
                stacklevel=2,
            )

    @classmethod
    def load(
        cls,
        folder: Path,
        *,
        name: str,
        device: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
        light: bool = False,
        pooling: Any = None,
        **ignored: Any,
    ) -> PublishedCrossEncoder:
        """Load a folder; a ``pooling`` is refused, since there are no vectors."""
        if light:
            raise NotLightError(f"{folder} holds a cross-encoder that only torch can run.")
        if pooling is not None:
            raise TertiumError(f"{name} reads pairs together and pools nothing: leave pooling out.")
        from sentence_transformers import CrossEncoder

        from tertium.models.checkpoints import quiet

        with quiet():
            found = CrossEncoder(
                str(folder),
                device=device,
                trust_remote_code=trust_remote_code,
                local_files_only=True,
            )
        if max_length is not None:
            found.max_seq_length = max_length
        return cls(found, name=name, folder=folder)

    @property
    def name(self) -> str:
        """What results call the model."""
        return self._name

    @property
    def kind(self) -> Kind:
        """A cross-encoder."""
        return Kind.CROSS

    @property
    def scale(self) -> tuple[float, float]:
        """That of a sigmoid."""
        return 0.0, 1.0

    @property
    def fingerprint(self) -> str:
        """The hash of its weights and of what makes scores of them."""
        found = hashlib.sha256(f"{self.activation} {self._limit}".encode())
        for key, tensor in sorted(self._model.state_dict().items()):
            found.update(key.encode())
            found.update(np.ascontiguousarray(tensor.float().cpu().numpy()).data)
        return found.hexdigest()

    def score(  # type: ignore[override]
        self,
        items: Iterable[TextPair],
        *,
        progress: bool | None = None,
        truncation: TokenizationStats | None = None,
    ) -> Matrix:
        """Scores of pairs, from 0 to 1, in input order; each is read in the order given.

        Args:
            items: two texts each; a distinct pair is scored once.
            progress: False for no progress on standard error.
            truncation: count cut pairs here instead of warning.
        """
        return self.score_items(checked_pairs(items), truncation=truncation, progress=progress)

    def score_items(
        self,
        items: Sequence[tuple[str, ...]],
        *,
        truncation: TokenizationStats | None = None,
        progress: bool | None = False,
    ) -> Matrix:
        """The same: a sigmoid stays on its scale."""
        from torch import nn

        places: dict[tuple[str, ...], int] = {}
        rows = [places.setdefault(tuple(pair), len(places)) for pair in items]
        if not rows:
            return np.empty(0, np.float32)
        stats = TokenizationStats(unit="pair") if truncation is None else truncation
        self._count(list(places), stats)
        found = self._model.predict(
            [(pair[0], pair[1]) for pair in places],
            batch_size=_BATCH,
            show_progress_bar=bool(progress),
            activation_fn=nn.Sigmoid(),
            convert_to_numpy=True,
        )
        if truncation is None:
            stats.report()
        return np.asarray(found, np.float32).reshape(-1)[rows]

    def save(self, folder: Path | str) -> None:
        """As sentence-transformers saves it."""
        self._model.save_pretrained(str(folder))

    @property
    def _limit(self) -> int:
        return int(self._model.max_seq_length or 512)

    def _count(self, pairs: list[tuple[str, ...]], stats: TokenizationStats) -> None:
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        ids = self._model.tokenizer(first, second, truncation=False, verbose=False)["input_ids"]
        cut = sum(len(row) > self._limit for row in ids)
        stats.add(cut=cut, texts=len(pairs), limit=self._limit)

    def _scores(self, query: str, texts: Sequence[str], condition: str | None) -> Matrix:
        self.check_condition(condition)
        return self.score([(query, text) for text in texts])
