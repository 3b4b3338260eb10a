"""A triple as a reading: the sequences that a conditional model makes of it."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from tertium.errors import TertiumError
from tertium.explain.gradients import Table
from tertium.explain.readings import Owner, Reading, States
from tertium.explain.tokens import (
    Owners,
    check_offsets,
    owner_of,
    silent_token,
    word_tables,
)
from tertium.explain.words import split_words
from tertium.models.conditional import ConditionalScorer
from tertium.models.encoder import evaluating

__all__ = ["triple_reading"]


def triple_reading(
    scorer: ConditionalScorer, texts: Sequence[str], *, weight: float = 1.0
) -> Reading:
    """Two sentences and a condition, in the sequences that the model makes of them.

    Args:
        scorer: a conditional model.
        texts: sentences and condition.
        weight: of its score, where a model averages several.
    """
    if scorer.engine is not None:
        raise TertiumError(
            f"{scorer.name} is run by {scorer.engine.name}, which shows nothing but scores: for "
            "alignment, attention and integrated gradients take the engine torch."
        )
    model, encoder, (low, high) = scorer.model, scorer.encoder, scorer.scale
    check_offsets(encoder)
    rows = model.sequences([(texts[0], texts[1], texts[2])])[0]
    features = model.features([rows])
    ids, mask, segments = (
        features[key].to(encoder.device) for key in ("input_ids", "attention_mask", "segments")
    )
    tokens = [_owners(encoder.tokenizer, at, text) for at, text in enumerate(texts)]
    owners = tuple(
        _row_owners(row.ids, members, tokens, model.tokenizer.separator, ids.shape[1])
        for members, row in zip(model.head.sequences, rows, strict=True)
    )
    count = len(rows)

    def forward(items: Tensor, masks: Tensor) -> Tensor:
        inputs = {"input_ids": items, "attention_mask": masks}
        with evaluating(model), model.head.full_gradient():
            encoded = encoder.forward(inputs, attention_layers=model.head.attention_layers)
            encoded = replace(encoded, segments=segments.repeat(len(items) // count, 1))
            # Item by item so far, as gradients are taken; the head wants side by side.
            order = torch.arange(len(items)).reshape(-1, count).T.flatten()
            compared = model.head(encoded.rows(order).split(count))
        return low + (high - low) * compared.score  # type: ignore[no-any-return]

    def states(items: Tensor, masks: Tensor) -> Tensor:
        with evaluating(model):
            return encoder.forward({"input_ids": items, "attention_mask": masks}).tokens

    return Reading(
        ids=ids,
        mask=mask,
        silent=torch.full_like(ids[:, :1], silent_token(encoder.tokenizer)),
        owners=owners,
        tables=tuple(Table(module, slice(None)) for module in word_tables(encoder)),
        forward=forward,
        states=(States(slice(None), states),),
        weight=weight,
    )


def _row_owners(
    ids: Sequence[int],
    members: Sequence[int],
    owners: Sequence[Owners],
    separator: int,
    width: int,
) -> Owners:
    """Tokens between two special ones belong to one text, of which the end may be cut off."""
    texts = iter(members)
    left = iter(owners[next(texts)])
    found: list[Owner | None] = [None]
    for token in ids[1:]:
        if token == separator:
            found.append(None)
            left = iter(owners[next(texts, members[0])])
        else:
            found.append(next(left))
    return (*found, *[None] * (width - len(found)))


def _owners(tokenizer: PreTrainedTokenizerBase, at: int, text: str) -> Owners:
    """The word of each token of a text, which the model reads without the space around it."""
    before = len(text) - len(text.lstrip())
    offsets = tokenizer(
        text.strip(),
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
        verbose=False,
    )["offset_mapping"]
    words = split_words(text) if at < 2 else []
    return tuple(owner_of(at, (start + before, end + before), words) for start, end in offsets)
