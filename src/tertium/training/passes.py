"""Forward passes that do not pad short texts to the longest of the batch."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from tertium.encoders import Encoder
from tertium.encoders.batching import token_budget_batches
from tertium.types import Encoded, Tokens

__all__ = ["encode_tokens"]


def encode_tokens(
    encoder: Encoder, tokens: Tokens, *, budget: int | None = None, layers: Sequence[int] = ()
) -> Encoded:
    """Encode a batch with gradients, on a processor in groups of like length.

    The result is that of one pass, row by row; only dropout falls differently.

    Args:
        encoder: what encodes.
        tokens: ids and mask.
        budget: most tokens in a group; None for one pass.
        layers: layers whose attention is kept.
    """
    if budget is None or encoder.device.type != "cpu":
        return _pass(encoder, tokens, layers)
    lengths = tokens.mask.sum(dim=1).numpy()
    groups = [torch.from_numpy(rows) for rows in token_budget_batches(lengths, budget=budget)]
    if len(groups) == 1:
        return _pass(encoder, tokens, layers)
    parts = [_pass(encoder, _trimmed(tokens, rows), layers) for rows in groups]
    back = torch.cat(groups).argsort()
    width = tokens.ids.shape[1]
    missing = [width - part.mask.shape[1] for part in parts]
    states = [pad(p.tokens, (0, 0, 0, m)) for p, m in zip(parts, missing, strict=True)]
    maps = [
        pad(part.attention, (0, short, 0, short))
        for part, short in zip(parts, missing, strict=True)
        if part.attention is not None
    ]
    return Encoded(
        embedding=torch.cat([part.embedding for part in parts])[back],
        tokens=torch.cat(states)[back],
        mask=tokens.mask,
        attention=torch.cat(maps, dim=1)[:, back] if maps else None,
        layers=parts[0].layers,
    )


def _pass(encoder: Encoder, tokens: Tokens, layers: Sequence[int]) -> Encoded:
    features = {"input_ids": tokens.ids, "attention_mask": tokens.mask}
    return encoder.forward(features, attention_layers=layers)


def _trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """Some rows of a batch, no wider than the longest of them."""
    ids, mask = tokens.ids[rows], tokens.mask[rows]
    width = max(int(mask.sum(dim=1).max()), 1)
    return Tokens(ids[:, :width], mask[:, :width])
