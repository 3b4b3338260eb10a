"""An encoder and a head that together read triples: two sentences and a condition."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.heads import ConditionalHead
from tertium.models.encoder import Encoder
from tertium.models.triples import JoinedIds, TripleTokenizer
from tertium.types import Compared, TextTriple

__all__ = ["ConditionalModel"]


class ConditionalModel(nn.Module):
    """Triples to similarities, with gradients if they are enabled.

    All sequences of a batch go through the backbone in one pass, and only the layers that the head
    looks at show their attention.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: which sequences to make of a triple, and what to make of them.
    """

    def __init__(self, encoder: Encoder, head: ConditionalHead) -> None:
        super().__init__()
        limit = encoder.max_length
        if head.width is not None and head.width > limit:
            raise TertiumError(
                f"This head reads {head.width} tokens, and the model {limit}: set its length to at "
                f"most {limit}."
            )
        self.encoder = encoder
        self.backbone = encoder.model
        self.head = head
        self.tokenizer = TripleTokenizer(encoder.tokenizer, max_length=head.width or limit)
        self.train(encoder.model.training)

    def sequences(self, triples: Sequence[TextTriple]) -> list[tuple[JoinedIds, ...]]:
        """Token ids of every triple's sequences; each distinct text is tokenised once."""
        stripped = [tuple(text.strip() for text in triple) for triple in triples]
        ids = self.tokenizer.tokenize(text for triple in stripped for text in triple)
        return [
            tuple(self._sequence(members, [ids[t] for t in triple]) for members in self._members)
            for triple in stripped
        ]

    def features(self, rows: Sequence[tuple[JoinedIds, ...]]) -> dict[str, Tensor]:
        """A batch as tensors: all first sequences, then all second ones, padded together."""
        merged = [row[at] for at in range(len(self._members)) for row in rows]
        return self.tokenizer.batch(merged, width=self.head.width)

    def forward(self, features: dict[str, Tensor]) -> Compared:
        """Similarities of a batch that :meth:`features` made."""
        device = self.encoder.device
        segments = features["segments"].to(device)
        inputs = {key: features[key].to(device) for key in ("input_ids", "attention_mask")}
        encoded = self.encoder.forward(inputs, attention_layers=self.head.attention_layers)
        encoded = replace(encoded, segments=segments)
        compared: Compared = self.head(encoded.split(len(self._members)))
        return compared

    @property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        return self.head.sequences

    def _sequence(self, members: tuple[int, ...], ids: list[list[int]]) -> JoinedIds:
        sentences = [ids[at] for at in members if at < 2] or [ids[2]]
        with_condition = len(members) > 1 and 2 in members
        return self.tokenizer.join(sentences, ids[2] if with_condition else None)
