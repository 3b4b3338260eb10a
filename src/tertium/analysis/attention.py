"""Attention inside a model: maps of a sentence, sinks, and information between dropout views."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.drawing import COLOURS, MARK, blank_figure, panels, series_style
from tertium.errors import TertiumError, require
from tertium.functional import cosine_pairs
from tertium.functional.attention_mi import (
    attention_layers,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tertium.models import Encoder
from tertium.models.tokens import TokenizationStats, chunks
from tertium.progress import bar
from tertium.types import Encoded, Tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AttentionMaps",
    "PairInformation",
    "Role",
    "Sinks",
    "attention_histograms",
    "attention_map_figure",
    "attention_sinks",
    "information_scatter",
    "pair_information",
    "sentence_attention",
    "sink_figure",
    "token_roles",
]

_BATCH = 16
_SLICES = 12  # maximum slices in a figure of histograms


class Role(StrEnum):
    """The role of a token in attention."""

    FIRST = "first token"
    SEPARATOR = "separators"
    PUNCTUATION = "final punctuation"
    CONTENT = "all other tokens"


@dataclass(frozen=True)
class Sinks:
    """The distribution of attention over roles of tokens, layer by layer.

    Attributes:
        roles: the roles.
        received: for each layer, the share of attention that tokens of each role receive, averaged
            over texts.
        tokens: the share of tokens with each role, which even attention would give them.
    """

    roles: tuple[Role, ...]
    received: Float[Tensor, "l r"]
    tokens: Float[Tensor, " r"]


def token_roles(encoder: Encoder, ids: Tensor) -> list[Role]:
    """The role of each token of one text; padding, which gets no attention, is a separator."""
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
    """Shares of attention by role and layer, over all heads and queries.

    Args:
        encoder: an encoder whose attention is available.
        texts: the texts to measure on.
        progress: False for no progress on standard error.
    """
    if not texts:
        raise TertiumError("Measuring attention needs at least one text.")
    roles = tuple(Role)
    received: list[Tensor] = []
    shares: list[Tensor] = []
    truncation = TokenizationStats()
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
    """Share of attention by layer, one line per role; dotted lines are even attention."""
    figure = blank_figure(6.2, 3.6)
    axes = figure.add_subplot()
    layers = range(1, len(found.received) + 1)
    for at, role in enumerate(found.roles):
        colour, marker = series_style(at)
        received = (100 * found.received[:, at]).tolist()
        axes.plot(layers, received, color=colour, marker=marker, ms=5, label=str(role))
        axes.axhline(100 * float(found.tokens[at]), color=colour, lw=1, ls=":")
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


@dataclass(frozen=True)
class AttentionMaps:
    """Attention between the tokens of one sentence.

    Attributes:
        tokens: tokens, including special ones.
        roles: role of each token.
        maps: attention of each layer, averaged over heads; rows are queries.
    """

    tokens: tuple[str, ...]
    roles: tuple[Role, ...]
    maps: Float[Tensor, "l t t"]


def sentence_attention(encoder: Encoder, text: str) -> AttentionMaps:
    """Attention of every layer on one sentence, without dropout, averaged over heads."""
    if not text.strip():
        raise TertiumError("The text is empty.")
    features = encoder.features([text])
    ids = features["input_ids"]
    maps = encoder.attention(Tokens(ids, features["attention_mask"]))[:, 0].mean(dim=1)
    names = encoder.tokenizer.convert_ids_to_tokens(ids[0].tolist())
    roles = token_roles(encoder, ids[0])
    return AttentionMaps(tuple(map(_readable, names)), tuple(roles), maps.cpu())


def attention_map_figure(found: AttentionMaps) -> "Figure":
    """One panel per layer, with separators and final punctuation marked: JTCSE, Figure 9."""
    require("report", purpose="Drawing", packages=("matplotlib",))
    from matplotlib.colors import PowerNorm

    layers, count = len(found.maps), len(found.tokens)
    rows, columns = panels(layers)
    side = min(max(1.9, 0.13 * count + 0.5), 4.0)
    figure = blank_figure(columns * side + 1.7, rows * (side + 0.15) + 0.9)
    # On a square-root scale, so that one bright column does not hide all others.
    colours = PowerNorm(0.5, vmin=0, vmax=float(found.maps.max()))
    shown = None
    for layer in range(layers):
        axes = figure.add_subplot(rows, columns, layer + 1)
        shown = axes.imshow(
            found.maps[layer].numpy(), cmap="viridis", norm=colours, interpolation="nearest"
        )
        axes.set_title(f"layer {layer + 1}")
        axes.spines[:].set_visible(False)
        lowest = layer + columns >= layers
        _name(axes, found, x=lowest, y=layer % columns == 0)
    if shown is not None:
        bar = figure.colorbar(shown, ax=figure.axes, fraction=0.03, pad=0.01, aspect=30)
        bar.set_label("attention, averaged over heads")
    return figure


def _name(axes: "Axes", found: AttentionMaps, *, x: bool, y: bool) -> None:
    """Label the outer edges with tokens."""
    places = range(len(found.tokens))
    size = 7 if len(found.tokens) <= 24 else 5
    axes.set_xticks(places, found.tokens if x else [""] * len(places), rotation=90, fontsize=size)
    axes.set_yticks(places, found.tokens if y else [""] * len(places), fontsize=size)
    axes.tick_params(length=0)
    for at, role in enumerate(found.roles):
        if role in (Role.SEPARATOR, Role.PUNCTUATION):
            for label in (axes.get_xticklabels()[at], axes.get_yticklabels()[at]):
                label.set(color=MARK, fontweight="bold")


def _readable(token: str) -> str:
    """A token without the marker for a space."""
    return token.replace("Ġ", " ").replace("▁", " ").strip() or token


@dataclass(frozen=True)
class PairInformation:
    """Cosines and attention mutual information of pairs of dropout views.

    Attributes:
        positive_cosines: cosines of two views of the same text.
        positive_information: their attention mutual information, averaged over slices.
        negative_cosines: cosines of views of two different texts.
        negative_information: their information, on the positions that both texts have.
    """

    positive_cosines: Float[Tensor, " n"]
    positive_information: Float[Tensor, " n"]
    negative_cosines: Float[Tensor, " n"]
    negative_information: Float[Tensor, " n"]

    @property
    def centroids(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Mean cosine and mean information of the positive pairs, and of the negative ones."""
        return (
            (float(self.positive_cosines.mean()), float(self.positive_information.nanmean())),
            (float(self.negative_cosines.mean()), float(self.negative_information.nanmean())),
        )


def pair_information(
    encoder: Encoder, texts: Sequence[str], *, seed: int = 0, samples: int = 150
) -> PairInformation:
    """Cosine and attention mutual information of positive and negative pairs of views.

    Args:
        encoder: an encoder, whose dropout makes the views.
        texts: each is paired with itself, and with its neighbour as a negative.
        seed: random seed of dropout and of the sampled positions.
        samples: positions per slice.
    """
    if len(texts) < 2:
        raise TertiumError("Negative pairs need at least two texts.")
    first, second = _views(encoder, texts, seed=seed)
    other = second.rows(torch.arange(len(texts)).roll(1))
    return PairInformation(
        cosine_pairs(first.embedding, second.embedding),
        _information(first, second, samples=samples, seed=seed),
        cosine_pairs(first.embedding, other.embedding),
        _information(first, other, samples=samples, seed=seed),
    )


def information_scatter(found: PairInformation) -> "Figure":
    """Semantic similarity against attention mutual information: miCSE, Figure 1.

    The large points are the centroids; the line connects them.
    """
    figure = blank_figure(6.5, 4.5)
    axes = figure.add_subplot()
    for name, cosines, information, colour, marker in (
        ("same text", found.positive_cosines, found.positive_information, COLOURS[0], "o"),
        ("two texts", found.negative_cosines, found.negative_information, COLOURS[1], "^"),
    ):
        axes.scatter(cosines, information, s=14, alpha=0.6, c=colour, marker=marker, label=name)
    axes.plot(*zip(*found.centroids, strict=True), color="black", lw=1, zorder=2)
    for (x, y), colour, marker in zip(found.centroids, COLOURS, "o^", strict=False):
        axes.scatter([x], [y], s=90, c=colour, edgecolors="black", marker=marker, zorder=3)
    axes.set_xlabel("cosine of the two views")
    axes.set_ylabel("attention mutual information (nats)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def attention_histograms(encoder: Encoder, texts: Sequence[str], *, seed: int = 0) -> "Figure":
    """Joint histograms of two dropout views' log attention, slice by slice: miCSE, Figure 6."""
    first, second = _views(encoder, texts, seed=seed)
    x, y, valid = _slices(first, second)
    count = x.shape[1]
    shown = torch.linspace(0, count - 1, min(_SLICES, count)).round().long().tolist()
    figure = blank_figure(9, 7)
    for place, at in enumerate(shown, 1):
        axes = figure.add_subplot(3, 4, place)
        here = valid[:, at]
        axes.hexbin(
            x[:, at][here].log().numpy(),
            y[:, at][here].log().numpy(),
            gridsize=40,
            bins="log",
            cmap="cividis",
            linewidths=0,
        )
        axes.set_title(f"slice {at}", fontsize=9)
        axes.tick_params(labelsize=7)
    figure.supxlabel("log attention, one view")
    figure.supylabel("log attention, the other view")
    return figure


def _views(encoder: Encoder, texts: Sequence[str], *, seed: int) -> tuple[Encoded, Encoded]:
    """Encode the same texts twice, with dropout and without gradients."""
    features = encoder.features(texts)
    depth = int(encoder.backbone.config.num_hidden_layers)
    layers = attention_layers(depth)
    was_training = encoder.model.training
    encoder.model.train()
    try:
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(seed)
            first = encoder.forward(features, attention_layers=layers)
            second = encoder.forward(features, attention_layers=layers)
    finally:
        encoder.model.train(was_training)
    return _on_cpu(first), _on_cpu(second)


def _on_cpu(encoded: Encoded) -> Encoded:
    attention = encoded.attention
    return replace(
        encoded,
        embedding=encoded.embedding.cpu(),
        tokens=encoded.tokens.cpu(),
        mask=encoded.mask.cpu(),
        attention=None if attention is None else attention.cpu(),
    )


def _slices(first: Encoded, second: Encoded) -> tuple[Tensor, Tensor, Tensor]:
    if first.attention is None or second.attention is None:
        raise TertiumError("The attention is not available.")
    x, y = attention_slices(first.attention), attention_slices(second.attention)
    return x, y, valid_positions(x, y, first.mask * second.mask)


def _information(
    first: Encoded, second: Encoded, *, samples: int, seed: int
) -> Float[Tensor, " n"]:
    x, y, valid = _slices(first, second)
    generator = torch.Generator(device=x.device).manual_seed(seed)
    found = mutual_information(x, y, sample_positions(valid, samples=samples, generator=generator))
    kept = found.kept.to(x.dtype)
    return (found.information * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)
