"""Encoder and conditional head as one torch module."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from tertium.heads import ConditionalHead
from tertium.models.encoder import Encoder
from tertium.models.triples import JoinedIds, TripleReader
from tertium.types import HeadOutput, TextTriple

__all__ = ["ConditionalModel"]


class ConditionalModel(nn.Module):
    """From triples to similarities, with gradients if they are enabled.

    All sequences of a batch go through the backbone in one pass, and attention is captured only in
    the layers that the head uses.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: decides which sequences to form from a triple, and scores them.
    """

    def __init__(self, encoder: Encoder, head: ConditionalHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.backbone = encoder.model
        self.head = head
        self.reader = TripleReader(encoder.text_tokenizer, head.layout, limit=encoder.max_length)
        self.train(encoder.model.training)

    def sequences(self, triples: Sequence[TextTriple]) -> list[tuple[JoinedIds, ...]]:
        """Token ids of every triple's sequences; each distinct text is tokenized once."""
        return self.reader.sequences(triples)

    def features(self, rows: Sequence[tuple[JoinedIds, ...]]) -> dict[str, Tensor]:
        """A batch as tensors: all first sequences, then all second ones, padded together."""
        return {name: torch.from_numpy(x) for name, x in self.reader.batch(rows).items()}

    def forward(self, features: dict[str, Tensor]) -> HeadOutput:
        """Similarities of a batch from :meth:`features`."""
        device = self.encoder.device
        layout = self.reader.layout
        segments = features["segments"].to(device)
        inputs = {key: features[key].to(device) for key in ("input_ids", "attention_mask")}
        if self.reader.has_types:
            inputs["token_type_ids"] = segments.clamp(min=0)
        encoded = self.encoder.forward(inputs, attention_layers=layout.attention_layers)
        encoded = replace(encoded, segments=segments)
        compared: HeadOutput = self.head(encoded.split(len(layout.sequences)))
        return compared
