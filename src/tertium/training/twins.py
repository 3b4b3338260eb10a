"""Both towers on both views of a batch, with cross attention where an objective asks for it."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed

from tertium.models.cross_attention import cross_branches, cross_layers
from tertium.models.twin import TwinModel
from tertium.training.passes import length_groups
from tertium.types import Crossing, Tokens, Towers

__all__ = ["encode_towers", "toss"]


def encode_towers(
    twin: TwinModel,
    tokens: Tokens,
    *,
    budget: int | None = None,
    crossing: Crossing | None = None,
) -> Towers:
    """The first token's states of both towers; the rows of ``tokens`` are two views, one by one.

    Args:
        twin: both towers; their main streams do not know of each other.
        tokens: the first view of all sentences, then the second.
        budget: most tokens in a group of like length; None for one pass.
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
    """A fair coin from the run's generator, the same in all processes."""
    coin = torch.randint(2, (1,)).to(device)
    if distributed.is_available() and distributed.is_initialized():
        distributed.broadcast(coin, src=0)
    return int(coin)
