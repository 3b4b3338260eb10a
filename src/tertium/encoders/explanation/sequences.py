"""Pairs and triples as readings: ids, where each token comes from, and the way to a score."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from tertium.encoders.conditional import ConditionalModel
from tertium.encoders.encoder import Encoder, valid_text
from tertium.encoders.explanation.readings import Owner, Reading
from tertium.encoders.twin import TwinModel
from tertium.errors import TertiumError

__all__ = ["pair_reading", "triple_reading"]


def pair_reading(
    encoder: Encoder, texts: Sequence[str], compare: Callable[[Tensor, Tensor], Tensor]
) -> Reading:
    """Two texts, each a sequence of its own.

    Args:
        encoder: reads them.
        texts: both.
        compare: embeddings of n first and n second texts to n scores.
    """
    features = encoder.features(texts)
    ids, mask = features["input_ids"], features["attention_mask"]
    framed = encoder.tokenizer(
        [valid_text(text) for text in texts],
        truncation=True,
        max_length=encoder.max_length,
        return_offsets_mapping=_fast(encoder.tokenizer),
        return_special_tokens_mask=True,
        verbose=False,
    )
    width = ids.shape[1]
    owners = [
        _owners(text, offsets, special, width)
        for text, (offsets, special) in enumerate(
            zip(framed["offset_mapping"], framed["special_tokens_mask"], strict=True)
        )
    ]

    def forward(rows: Tensor, masks: Tensor) -> Tensor:
        found = encoder.forward({"input_ids": rows, "attention_mask": masks}).embedding
        return compare(found[0::2], found[1::2])

    return Reading(
        ids=ids,
        mask=mask,
        owners=tuple(owners),
        silent=_silent(encoder.tokenizer),
        tables=_tables(encoder),
        forward=forward,
        states=lambda rows, masks: _states(encoder, rows, masks),
    )


def triple_reading(
    model: ConditionalModel, texts: Sequence[str], *, low: float, high: float
) -> Reading:
    """Two sentences and a condition, in the sequences that the model makes of them.

    Args:
        model: encoder and head.
        texts: sentences and condition.
        low: score that the head's 0 stands for.
        high: score that its 1 stands for.
    """
    encoder, joiner = model.encoder, model.joiner
    rows = model.sequences([(texts[0], texts[1], texts[2])])[0]
    features = model.features([rows])
    width = features["input_ids"].shape[1]
    offsets = [_offsets(encoder.tokenizer, text) for text in texts]
    owners = [
        _row_owners(row.ids, members, offsets, joiner.separator, width)
        for members, row in zip(model.reads.sequences, rows, strict=True)
    ]
    segments = features["segments"].to(encoder.device)
    count = len(rows)

    def forward(ids: Tensor, masks: Tensor) -> Tensor:
        layers = model.reads.attention_layers
        inputs = {"input_ids": ids, "attention_mask": masks}
        encoded = encoder.forward(inputs, attention_layers=layers)
        encoded = replace(encoded, segments=segments.repeat(len(ids) // count, 1))
        # Item by item so far, as gradients are taken; the head wants side by side.
        order = torch.arange(len(ids)).reshape(-1, count).T.flatten()
        compared = model.reads(encoded.rows(order).split(count))
        return low + (high - low) * compared.score

    return Reading(
        ids=features["input_ids"].to(encoder.device),
        mask=features["attention_mask"].to(encoder.device),
        owners=tuple(owners),
        silent=_silent(encoder.tokenizer),
        tables=_tables(encoder),
        forward=forward,
        states=lambda ids, masks: _states(encoder, ids, masks),
    )


def _row_owners(
    ids: Sequence[int],
    members: Sequence[int],
    offsets: Sequence[Sequence[tuple[int, int]]],
    separator: int,
    width: int,
) -> tuple[Owner | None, ...]:
    """Tokens between two special ones belong to one text."""
    texts = iter(members)
    text, place = next(texts), 0
    owners: list[Owner | None] = [None]
    for token in ids[1:]:
        if token == separator:
            owners.append(None)
            text, place = next(texts, text), 0
        else:
            owners.append(Owner(text, *offsets[text][place]))
            place += 1
    return (*owners, *[None] * (width - len(owners)))


def _owners(
    text: int, offsets: Sequence[tuple[int, int]], special: Sequence[int], width: int
) -> tuple[Owner | None, ...]:
    """Tokens of a text in its own frame of special tokens."""
    owners = [
        None if framing or start == end else Owner(text, start, end)
        for (start, end), framing in zip(offsets, special, strict=True)
    ]
    return (*owners, *[None] * (width - len(owners)))


def _offsets(tokenizer: PreTrainedTokenizerBase, text: str) -> list[tuple[int, int]]:
    """Where each token of a text stands, which the model reads without the space around it."""
    before = len(text) - len(text.lstrip())
    found: list[tuple[int, int]] = tokenizer(
        valid_text(text.strip()),
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=_fast(tokenizer),
        verbose=False,
    )["offset_mapping"]
    return [(start + before, end + before) for start, end in found]


def _fast(tokenizer: PreTrainedTokenizerBase) -> bool:
    if not tokenizer.is_fast:
        raise TertiumError(
            "This model's tokenizer does not say where a token stands in the text; only occlusion "
            "can explain it."
        )
    return True


def _silent(tokenizer: PreTrainedTokenizerBase) -> int:
    """A token that says nothing. Not padding, which some models give no place in the sequence."""
    for token in (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id):
        if token is not None:
            return int(token)
    raise TertiumError("This model's tokenizer has no token that says nothing.")


def _tables(encoder: Encoder) -> tuple[nn.Module, ...]:
    twin = encoder.backbone
    towers = (twin.first, twin.second) if isinstance(twin, TwinModel) else (twin,)
    return tuple(tower.get_input_embeddings() for tower in towers)


def _states(encoder: Encoder, ids: Tensor, mask: Tensor) -> Tensor:
    with torch.inference_mode():
        return encoder.forward({"input_ids": ids, "attention_mask": mask}).tokens
