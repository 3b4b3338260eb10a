"""A pair as a reading: each text is a sequence of its own, for every encoder of the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from tertium.errors import TertiumError
from tertium.explain.gradients import Table
from tertium.explain.readings import Reading, States
from tertium.explain.tokens import (
    Owners,
    check_offsets,
    owner_of,
    silent_token,
    word_tables,
)
from tertium.explain.words import split_words
from tertium.models.base import Embedder
from tertium.models.encoder import Encoder, evaluating

__all__ = ["pair_reading"]


@dataclass(frozen=True)
class _Side:
    """Two texts as one encoder reads them."""

    encoder: Encoder
    weight: float
    ids: Int[Tensor, "s t"]
    mask: Int[Tensor, "s t"]
    owners: tuple[Owners, ...]

    def inputs(self, rows: Tensor, masks: Tensor) -> dict[str, Tensor]:
        """Features of repetitions of these texts."""
        extra = self.encoder.prompt_features(self.encoder.prompt)
        return {"input_ids": rows, "attention_mask": masks, **extra}

    def embed(self, rows: Tensor, masks: Tensor) -> Tensor:
        """Weighted embeddings."""
        with evaluating(self.encoder.model):
            return self.weight * self.encoder.forward(self.inputs(rows, masks)).embedding

    def states(self, rows: Tensor, masks: Tensor) -> Tensor:
        """Last hidden states."""
        with evaluating(self.encoder.model):
            return self.encoder.forward(self.inputs(rows, masks)).tokens


def pair_reading(model: Embedder, texts: Sequence[str]) -> Reading:
    """Two texts, each a sequence of its own, once for every encoder whose embeddings are added.

    Args:
        model: compares the vectors of one encoder, or the sum of several.
        texts: both.
    """
    weights: dict[int, float] = {}  # an encoder that is there twice counts twice, and reads once
    for member in model.members:
        key = id(member.encoder)
        weights[key] = weights.get(key, 0.0) + member.weight
    encoders = {id(encoder): encoder for encoder in model.encoders}
    sides = [_side(encoders[key], weight, texts) for key, weight in weights.items()]
    width = max(side.ids.shape[1] for side in sides)
    wide = [_widened(side, width) for side in sides]
    rows = [slice(2 * at, 2 * at + 2) for at in range(len(sides))]

    def forward(ids: Tensor, masks: Tensor) -> Tensor:
        items = len(ids) // (2 * len(sides))
        split = [part.reshape(items, -1, width) for part in (ids, masks)]
        parts = [
            side.embed(*(part[:, own].reshape(-1, width) for part in split))
            for side, own in zip(wide, rows, strict=True)
        ]
        total = torch.stack(parts).sum(dim=0)
        return model.compare(total[0::2], total[1::2])

    ids = torch.cat([side.ids for side in wide])
    silent = torch.tensor([[silent_token(side.encoder.tokenizer)] for side in wide for _ in texts])
    owners = tuple(row for side in wide for row in side.owners)
    return Reading(
        ids=ids,
        mask=torch.cat([side.mask for side in wide]),
        silent=silent.to(ids.device),
        owners=owners,
        tables=tuple(
            Table(module, own)
            for side, own in zip(wide, rows, strict=True)
            for module in word_tables(side.encoder)
        ),
        forward=forward,
        states=tuple(
            States(own, side.states, side.weight) for side, own in zip(wide, rows, strict=True)
        ),
    )


def _side(encoder: Encoder, weight: float, texts: Sequence[str]) -> _Side:
    if encoder.engine is not None:
        raise TertiumError(
            f"{encoder.name} is run by {encoder.engine.name}, which shows nothing but scores: for "
            "alignment and integrated gradients take the engine torch."
        )
    check_offsets(encoder)
    prompt, tokenizer = encoder.prompt, encoder.tokenizer
    framed = tokenizer(
        [prompt + text for text in texts],
        truncation=True,
        max_length=encoder.max_length,
        return_offsets_mapping=True,
        verbose=False,
    )
    padded = tokenizer.pad({"input_ids": framed["input_ids"]}, return_tensors="pt")
    ids, mask = (padded[key].to(encoder.device) for key in ("input_ids", "attention_mask"))
    owners = []
    for text, row in enumerate(mask.bool().tolist()):
        words = split_words(texts[text])
        # Special tokens have an empty range, and the prompt ends where the text begins.
        found = iter(
            (max(start - len(prompt), 0), end - len(prompt))
            for start, end in framed["offset_mapping"][text]
        )
        # Padding may stand on either side.
        owners.append(tuple(owner_of(text, next(found), words) if real else None for real in row))
    return _Side(encoder, weight, ids, mask, tuple(owners))


def _widened(side: _Side, width: int) -> _Side:
    """With padding at the end, so that encoders with other tokens fit beside it."""
    more = width - side.ids.shape[1]
    return replace(
        side,
        ids=pad(side.ids, (0, more), value=int(side.encoder.tokenizer.pad_token_id or 0)),
        mask=pad(side.mask, (0, more)),
        owners=tuple((*row, *[None] * more) for row in side.owners),
    )
