"""An encoder and a head that together read triples: two sentences and a condition."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, cast

from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.models.encoder import Encoder
from tertium.models.triples import JoinedIds, Joiner
from tertium.types import Compared, Encoded, TextTriple

__all__ = ["ConditionalModel", "TripleHead"]


class TripleHead(Protocol):
    """What the model must know of a head."""

    @property
    def width(self) -> int | None:
        """The one length it reads, or None for any."""
        ...

    @property
    def sequences(self) -> tuple[tuple[int, ...], ...]:
        """Which texts each sequence has: 0 and 1 are the sentences, 2 is the condition."""
        ...

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """Layers whose attention it looks at."""
        ...

    def __call__(self, sides: Sequence[Encoded]) -> Compared:
        """The similarity, from one encoded batch per sequence."""
        ...


class ConditionalModel(nn.Module):
    """Triples to similarities, with gradients if they are enabled.

    All sequences of a batch go through the backbone in one pass, and only the layers that the head
    looks at show their attention.

    Args:
        encoder: backbone, tokenizer and pooling.
        head: which sequences to make of a triple, and what to make of them.
    """

    def __init__(self, encoder: Encoder, head: TripleHead) -> None:
        super().__init__()
        limit = encoder.max_length
        if head.width is not None and head.width > limit:
            raise TertiumError(
                f"This head reads {head.width} tokens, and the model {limit}: set its length to at "
                f"most {limit}."
            )
        self.encoder = encoder
        self.backbone = encoder.model
        self.head = cast(nn.Module, head)
        self.joiner = Joiner(encoder.tokenizer, max_length=head.width or limit)
        self.train(encoder.model.training)

    @property
    def reads(self) -> TripleHead:
        """The head, for what it needs."""
        return cast(TripleHead, self.head)

    def sequences(self, triples: Sequence[TextTriple]) -> list[tuple[JoinedIds, ...]]:
        """Token ids of every triple's sequences; each distinct text is tokenised once."""
        stripped = [tuple(text.strip() for text in triple) for triple in triples]
        ids = self.joiner.tokenize(text for triple in stripped for text in triple)
        return [
            tuple(self._sequence(members, [ids[t] for t in triple]) for members in self._members)
            for triple in stripped
        ]

    def features(self, rows: Sequence[tuple[JoinedIds, ...]]) -> dict[str, Tensor]:
        """A batch as tensors: all first sequences, then all second ones, padded together."""
        merged = [row[at] for at in range(len(self._members)) for row in rows]
        return self.joiner.batch(merged, width=self.reads.width)

    def forward(self, features: dict[str, Tensor]) -> Compared:
        """Similarities of a batch that :meth:`features` made."""
        device = self.encoder.device
        segments = features["segments"].to(device)
        inputs = {key: features[key].to(device) for key in ("input_ids", "attention_mask")}
        encoded = self.encoder.forward(inputs, attention_layers=self.reads.attention_layers)
        encoded = replace(encoded, segments=segments)
        compared: Compared = self.head(encoded.split(len(self._members)))
        return compared

    @property
    def _members(self) -> tuple[tuple[int, ...], ...]:
        return self.reads.sequences

    def _sequence(self, members: tuple[int, ...], ids: list[list[int]]) -> JoinedIds:
        sentences = [ids[at] for at in members if at < 2] or [ids[2]]
        with_condition = len(members) > 1 and 2 in members
        return self.joiner.join(sentences, ids[2] if with_condition else None)
