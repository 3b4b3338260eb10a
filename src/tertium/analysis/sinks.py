"""Where attention drains to: the first token, separators, final punctuation."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.drawing import COLOURS, MARKERS, blank_figure
from tertium.errors import TertiumError
from tertium.models import Encoder
from tertium.models.batching import chunks
from tertium.models.encoder import Truncation
from tertium.progress import bar
from tertium.types import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Role", "Sinks", "attention_sinks", "sink_figure", "token_roles"]

_BATCH = 16


class Role(StrEnum):
    """What a token is to attention."""

    FIRST = "first token"
    SEPARATOR = "separators"
    PUNCTUATION = "final punctuation"
    CONTENT = "all other tokens"


@dataclass(frozen=True)
class Sinks:
    """How attention is shared out, layer by layer.

    Attributes:
        roles: of tokens.
        received: of each layer, the share of all attention that tokens of each role receive; the
            mean over texts.
        tokens: the share of the tokens that have each role, what even attention would give them.
    """

    roles: tuple[Role, ...]
    received: Float[Tensor, "l r"]
    tokens: Float[Tensor, " r"]


def token_roles(encoder: Encoder, ids: Tensor) -> list[Role]:
    """The role of each token of one text; padding counts as a separator, and gets no attention."""
    special = set(encoder.tokenizer.all_special_ids) - {encoder.tokenizer.unk_token_id}
    row = ids.tolist()
    roles = [Role.SEPARATOR if token in special else Role.CONTENT for token in row]
    roles[0] = Role.FIRST
    content = [at for at, role in enumerate(roles) if role is Role.CONTENT]
    if content and _is_punctuation(encoder, row[content[-1]]):
        roles[content[-1]] = Role.PUNCTUATION
    return roles


def attention_sinks(
    encoder: Encoder, texts: Sequence[str], *, progress: bool | None = None
) -> Sinks:
    """Shares of attention by role and layer, over all heads and all tokens that look.

    Args:
        encoder: with attention that can be read.
        texts: what it reads.
        progress: False for no progress on standard error.
    """
    if not texts:
        raise TertiumError("Attention is measured on texts: give at least one.")
    roles = tuple(Role)
    received: list[Tensor] = []
    shares: list[Tensor] = []
    truncation = Truncation()
    with bar(total=len(texts), label="attention", unit="text", show=progress) as shown:
        for batch in chunks(sorted(texts, key=len), _BATCH):
            features = encoder.features(batch, truncation=truncation)
            ids, mask = features["input_ids"], features["attention_mask"]
            maps = encoder.attention(Tokens(ids, mask)).mean(dim=2)  # [l, n, t, t]
            real = mask.to(maps.dtype)
            per_token = torch.einsum("lnqk,nq->lnk", maps, real) / real.sum(dim=1)[:, None]
            names = [token_roles(encoder, row) for row in ids]
            member = torch.tensor([[[r == role for role in roles] for r in row] for row in names])
            member = member.to(maps) * real[:, :, None]
            received.append(torch.einsum("lnk,nkr->nlr", per_token, member).cpu())
            shares.append((member.sum(dim=1) / real.sum(dim=1, keepdim=True)).cpu())
            shown.update(len(batch))
    truncation.report()
    return Sinks(roles, torch.cat(received).mean(dim=0), torch.cat(shares).mean(dim=0))


def sink_figure(found: Sinks) -> "Figure":
    """Share of attention by layer, a line per role; dotted, what even attention would give."""
    figure = blank_figure(6.2, 3.6)
    axes = figure.add_subplot()
    layers = range(1, len(found.received) + 1)
    for at, role in enumerate(found.roles):
        axes.plot(
            layers,
            (100 * found.received[:, at]).tolist(),
            color=COLOURS[at],
            marker=MARKERS[at],
            ms=5,
            label=str(role),
        )
        even = 100 * float(found.tokens[at])
        axes.axhline(even, color=COLOURS[at], lw=1, ls=":")
    step = max(1, len(layers) // 12)
    axes.set_xticks(range(1, len(layers) + 1, step))
    axes.set_ylim(0, 100)
    axes.set_xlabel("layer")
    axes.set_ylabel("share of attention received (%)")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
    return figure


def _is_punctuation(encoder: Encoder, token: int) -> bool:
    text = str(encoder.tokenizer.decode([token])).strip()
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)
