"""Forward passes of encoders and twins that avoid padding to the longest text of a batch."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed
from torch.nn.functional import pad

from tertium.models import Encoder
from tertium.models.tokens import token_budget_batches
from tertium.models.twin import TwinModel, cross_branches, cross_layers
from tertium.types import Crossing, Encoded, Tokens, Towers

__all__ = ["encode_tokens", "encode_towers", "length_groups", "toss"]


def encode_tokens(
    encoder: Encoder, tokens: Tokens, *, budget: int | None = None, layers: Sequence[int] = ()
) -> Encoded:
    """Encode a batch with gradients, on a CPU in groups of similar length.

    The result equals that of one pass, apart from dropout.

    Args:
        encoder: the encoder.
        tokens: ids and mask.
        budget: maximum tokens in a group; None for one pass.
        layers: layers whose attention to return.
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
    """Groups of similar length, each with its row numbers; on a GPU one group.

    Args:
        tokens: ids and mask.
        budget: maximum tokens in a group; None for one group.
    """
    whole = [(torch.arange(len(tokens.ids), device=tokens.ids.device), tokens)]
    if budget is None or tokens.ids.device.type != "cpu":
        return whole
    lengths = tokens.mask.sum(dim=1).numpy()
    groups = [torch.from_numpy(rows) for rows in token_budget_batches(lengths, budget=budget)]
    return [(rows, _trimmed(tokens, rows)) for rows in groups] if len(groups) > 1 else whole


def _trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """Some rows of a batch, trimmed to the longest of them."""
    ids, mask = tokens.ids[rows], tokens.mask[rows]
    width = max(int(mask.sum(dim=1).max()), 1)
    return Tokens(ids[:, :width], mask[:, :width])


def encode_towers(
    twin: TwinModel,
    tokens: Tokens,
    *,
    budget: int | None = None,
    crossing: Crossing | None = None,
) -> Towers:
    """The first token's states in both towers, for two views.

    Args:
        twin: both towers; their main streams are independent.
        tokens: the first view of all sentences, then the second.
        budget: maximum tokens in a group of similar length; None for one pass.
        crossing: also compute the crossed states.
    """
    layers = cross_layers(int(twin.config.num_hidden_layers), crossing.count) if crossing else ()
    groups = length_groups(tokens, budget=budget)
    # Looked up once: the gradient of a lookup is as large as the whole table.
    words = [tower.get_input_embeddings()(tokens.ids) for tower in (twin.first, twin.second)]
    parts = [
        _encode(twin, [w[rows, : group.ids.shape[1]] for w in words], group.mask, layers, crossing)
        for rows, group in groups
    ]
    order = torch.cat([rows for rows, _ in groups]).argsort()

    def joined(states: list[Tensor | None]) -> Float[Tensor, "2 2 n d"] | None:
        found = [each for each in states if each is not None]
        if not found:
            return None
        rows = torch.cat(found, dim=1)[:, order]
        return rows.view(2, 2, -1, rows.shape[-1])

    cls, pooled, crossed = (joined(list(states)) for states in zip(*parts, strict=True))
    assert cls is not None
    return Towers(cls, pooled, crossed, asks=toss(tokens.ids.device))


def _encode(
    twin: TwinModel,
    words: Sequence[Float[Tensor, "n t d"]],
    mask: Int[Tensor, "n t"],
    layers: Sequence[int],
    crossing: Crossing | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """CLS, pooled and crossed states ``[tower, n, d]`` of one group."""
    one, two = (
        tower(inputs_embeds=embedded, attention_mask=mask, output_hidden_states=len(layers) > 0)
        for tower, embedded in zip((twin.first, twin.second), words, strict=True)
    )
    cls = torch.stack([out.last_hidden_state[:, 0] for out in (one, two)])
    pooled = None
    if getattr(one, "pooler_output", None) is not None:
        pooled = torch.stack([one.pooler_output, two.pooler_output])
    if not layers or crossing is None:
        return cls, pooled, None
    branches = cross_branches(
        twin.first,
        twin.second,
        (one.hidden_states, two.hidden_states),
        mask,
        layers=layers,
        branch=crossing.branch,
        cls_only=True,
    )
    return cls, pooled, torch.stack([branch[:, 0] for branch in branches])


def toss(device: torch.device) -> int:
    """A fair coin from the global generator, the same in all processes."""
    coin = torch.randint(2, (1,)).to(device)
    if distributed.is_available() and distributed.is_initialized():
        distributed.broadcast(coin, src=0)
    return int(coin)
