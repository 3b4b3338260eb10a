"""Forward passes that do not pad short texts to the longest of the batch."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from tertium.models import Encoder
from tertium.models.batching import token_budget_batches
from tertium.types import Encoded, Tokens

__all__ = ["encode_tokens", "length_groups"]


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
    groups = length_groups(tokens, budget=budget)
    if len(groups) == 1:
        return encoder.forward(
            {"input_ids": tokens.ids, "attention_mask": tokens.mask}, attention_layers=layers
        )
    # Looked up once: the gradient of a lookup is as large as the whole table.
    words = encoder.backbone.get_input_embeddings()(tokens.ids)
    parts = [
        encoder.forward(
            {
                "inputs_embeds": words[rows, : group.ids.shape[1]],
                "attention_mask": group.mask,
            },
            attention_layers=layers,
        )
        for rows, group in groups
    ]
    back = torch.cat([rows for rows, _ in groups]).argsort()
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


def length_groups(tokens: Tokens, *, budget: int | None) -> list[tuple[Tensor, Tokens]]:
    """Groups of like length, each with its row numbers; on an accelerator one group of all.

    Args:
        tokens: ids and mask.
        budget: most tokens in a group; None for one group.
    """
    whole = [(torch.arange(len(tokens.ids), device=tokens.ids.device), tokens)]
    if budget is None or tokens.ids.device.type != "cpu":
        return whole
    lengths = tokens.mask.sum(dim=1).numpy()
    groups = [torch.from_numpy(rows) for rows in token_budget_batches(lengths, budget=budget)]
    return [(rows, _trimmed(tokens, rows)) for rows in groups] if len(groups) > 1 else whole


def _trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """Some rows of a batch, no wider than the longest of them."""
    ids, mask = tokens.ids[rows], tokens.mask[rows]
    width = max(int(mask.sum(dim=1).max()), 1)
    return Tokens(ids[:, :width], mask[:, :width])
