"""The module that lets ``CrossEncoder`` of sentence-transformers load a conditional model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.base.modules import InputModule
from torch import Tensor

from tertium.models.conditional import ConditionalScorer
from tertium.types import TextTriple

__all__ = ["TripleModule"]


class TripleModule(InputModule):
    """The only module of such a ``CrossEncoder``: from triples to scores on the label scale.

    sentence-transformers requires ``trust_remote_code=True`` to import any class but its own; the
    code is that of the installed tertium, the folder contains none.
    """

    def __init__(self, scorer: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scorer = scorer
        self.model = scorer.model
        self.tokenizer = scorer.encoder.tokenizer

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> "TripleModule":  # type: ignore[override]
        """Load the folder of a saved conditional scorer."""
        return cls(ConditionalScorer.load(Path(model_name_or_path)))

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[TextTriple], **options: Any
    ) -> dict[str, Tensor]:
        """Token ids, masks and segments of a batch."""
        features: dict[str, Tensor] = self.model.features(self.model.sequences(inputs))
        return features

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Add ``scores``, one column."""
        low, high = self.scorer.scale
        scores = low + (high - low) * self.model(features).score
        return {**features, "scores": scores.clamp(low, high)[:, None]}

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Save the scorer."""
        self.scorer.save(output_path)
