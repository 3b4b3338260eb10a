"""An item as torch inputs, with a differentiable score."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import pad

from tertium.errors import TertiumError
from tertium.explain.reading import Places, Reading, read_item
from tertium.models.base import Embedder, Model
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import Encoder, evaluating

__all__ = ["Table", "TokenizedItem", "tokenize_item"]


@dataclass(frozen=True)
class Table:
    """An embedding table, and the sequences of an item that use it."""

    module: nn.Module
    rows: slice


@dataclass(frozen=True)
class TokenizedItem:
    """Sequences of one item, and the function that scores them.

    Attributes:
        ids: token ids, padded to the same length.
        mask: 1 for real tokens.
        neutral: for each sequence, a token without meaning.
        places: the word of each token; None for the condition, special tokens and padding.
        tables: the embedding tables.
        forward: from ids and mask of n repetitions of the item to n scores.
        weight: weight of this score, if a model averages several.
    """

    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    neutral: Int[Tensor, "s 1"]
    places: tuple[Places, ...]
    tables: tuple[Table, ...]
    forward: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0

    def without(self, text: int) -> Int[Tensor, "s t"]:
        """Ids with each token of a text's words replaced by the neutral one."""
        own = [[place is not None and place[0] == text for place in row] for row in self.places]
        return torch.where(torch.tensor(own, device=self.ids.device), self.neutral, self.ids)


def tokenize_item(model: Model, item: Sequence[str]) -> list[TokenizedItem]:
    """A pair or triple as torch inputs; several if the score is a weighted mean.

    Raises ``TertiumError`` if torch would not give the same scores as the model's engine.
    """
    readings = read_item(model, item)
    for reading in readings:
        _check_run_by_torch(reading)
    if model.takes_conditions:
        return [_tokenized_triple(reading, item) for reading in readings]
    return [_tokenized_pair(cast(Embedder, model.vector_model), readings)]


@dataclass(frozen=True)
class _Side:
    """Two texts as inputs of one encoder."""

    encoder: Encoder
    weight: float
    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    places: tuple[Places, ...]

    def embed(self, rows: Tensor, masks: Tensor) -> Tensor:
        """Weighted embeddings of repetitions of these texts."""
        extra = self.encoder.prompt_features(self.encoder.prompt)
        inputs = {"input_ids": rows, "attention_mask": masks, **extra}
        with evaluating(self.encoder.model):
            return self.weight * self.encoder.forward(inputs).embedding

    def widened(self, width: int) -> "_Side":
        """Pad at the end to ``width``, to match encoders with other tokenizers."""
        more = width - self.ids.shape[1]
        return replace(
            self,
            ids=pad(self.ids, (0, more), value=int(self.encoder.tokenizer.pad_token_id or 0)),
            mask=pad(self.mask, (0, more)),
            places=tuple((*row, *[None] * more) for row in self.places),
        )


def _tokenized_pair(model: Embedder, readings: Sequence[Reading]) -> TokenizedItem:
    """Two texts, each a sequence of its own, once for every encoder in a sum of embeddings."""
    sides = [_side(reading) for reading in readings]
    width = max(side.ids.shape[1] for side in sides)
    sides = [side.widened(width) for side in sides]
    rows = [slice(2 * at, 2 * at + 2) for at in range(len(sides))]

    def forward(ids: Tensor, masks: Tensor) -> Tensor:
        items = len(ids) // (2 * len(sides))
        split = [part.reshape(items, -1, width) for part in (ids, masks)]
        parts = [
            side.embed(*(part[:, own].reshape(-1, width) for part in split))
            for side, own in zip(sides, rows, strict=True)
        ]
        total = torch.stack(parts).sum(dim=0)
        return model.compare(total[0::2], total[1::2])

    ids = torch.cat([side.ids for side in sides])
    neutral = [[_neutral_token(side.encoder)] for side in sides for _ in side.ids]
    return TokenizedItem(
        ids=ids,
        mask=torch.cat([side.mask for side in sides]),
        neutral=torch.tensor(neutral, device=ids.device),
        places=tuple(row for side in sides for row in side.places),
        tables=tuple(
            Table(backbone.get_input_embeddings(), own)
            for side, own in zip(sides, rows, strict=True)
            for backbone in side.encoder.backbones
        ),
        forward=forward,
    )


def _side(reading: Reading) -> _Side:
    encoder: Encoder = reading.reader.encoder
    ids, mask = (torch.from_numpy(x).to(encoder.device) for x in (reading.ids, reading.mask))
    return _Side(encoder, reading.weight, ids, mask, reading.places)


def _tokenized_triple(reading: Reading, texts: Sequence[str]) -> TokenizedItem:
    """Two sentences and a condition, in the sequences that the model makes of them."""
    scorer: ConditionalScorer = reading.reader
    model, encoder, (low, high) = scorer.model, scorer.encoder, scorer.scale
    rows = model.sequences([(texts[0], texts[1], texts[2])])[0]
    segments = model.features([rows])["segments"].to(encoder.device)
    ids, mask = (torch.from_numpy(x).to(encoder.device) for x in (reading.ids, reading.mask))
    count = len(rows)

    def forward(items: Tensor, masks: Tensor) -> Tensor:
        inputs = {"input_ids": items, "attention_mask": masks}
        with evaluating(model), model.head.full_gradient():
            layers = model.head.layout.attention_layers
            encoded = encoder.forward(inputs, attention_layers=layers)
            encoded = replace(encoded, segments=segments.repeat(len(items) // count, 1))
            # Rows are grouped by item, but the head needs them grouped by side.
            order = torch.arange(len(items)).reshape(-1, count).T.flatten()
            score: Tensor = model.head(encoded.rows(order).split(count)).score
        return low + (high - low) * score

    return TokenizedItem(
        ids=ids,
        mask=mask,
        neutral=torch.full_like(ids[:, :1], _neutral_token(encoder)),
        places=reading.places,
        tables=tuple(
            Table(backbone.get_input_embeddings(), slice(None)) for backbone in encoder.backbones
        ),
        forward=forward,
        weight=reading.weight,
    )


def _neutral_token(encoder: Encoder) -> int:
    """Not padding if possible, because some models give it no position."""
    tokenizer = encoder.tokenizer
    for token in (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id):
        if token is not None:
            return int(token)
    raise TertiumError("This model's tokenizer has no mask, unknown or padding token.")


def _check_run_by_torch(reading: Reading) -> None:
    part = reading.reader
    exact = part.needs_engine and part.engine is not None and part.engine.name == "onnx"
    if part.engine is not None and not exact:  # otherwise torch gives the same scores
        raise TertiumError(
            f"{part.name} runs on {part.engine.name}, which has no gradients: for integrated "
            "gradients use the engine torch."
        )
