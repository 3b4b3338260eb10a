"""One sentence's attention, layer by layer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from tertium.analysis.sinks import Role, token_roles
from tertium.drawing import MARK, blank_figure, panels
from tertium.errors import TertiumError, require
from tertium.models import Encoder
from tertium.types import Tokens

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AttentionMaps", "attention_map_figure", "sentence_attention"]

_MARKED = (Role.SEPARATOR, Role.PUNCTUATION)


@dataclass(frozen=True)
class AttentionMaps:
    """Attention between the tokens of one sentence.

    Attributes:
        tokens: as the tokenizer cuts it, special tokens included.
        roles: of each token.
        maps: of each layer, the mean over heads; a row is the token that looks.
    """

    tokens: tuple[str, ...]
    roles: tuple[Role, ...]
    maps: Float[Tensor, "l t t"]


def sentence_attention(encoder: Encoder, text: str) -> AttentionMaps:
    """Attention of every layer on one sentence, without dropout, the mean over heads."""
    if not text.strip():
        raise TertiumError("There is no text to look at.")
    features = encoder.features([text])
    ids = features["input_ids"]
    maps = encoder.attention(Tokens(ids, features["attention_mask"]))[:, 0].mean(dim=1)
    names = encoder.tokenizer.convert_ids_to_tokens(ids[0].tolist())
    roles = token_roles(encoder, ids[0])
    return AttentionMaps(tuple(map(_readable, names)), tuple(roles), maps.cpu())


def attention_map_figure(found: AttentionMaps) -> "Figure":
    """A panel per layer; separators and final punctuation are marked: JTCSE, Figure 9."""
    require("report", purpose="Drawing", packages=("matplotlib",))
    from matplotlib.colors import PowerNorm

    layers, count = len(found.maps), len(found.tokens)
    rows, columns = panels(layers)
    side = min(max(1.9, 0.13 * count + 0.5), 4.0)
    figure = blank_figure(columns * side + 1.7, rows * (side + 0.15) + 0.9)
    # A square root, or one bright column would leave all others in the dark.
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
        bar.set_label("attention, the mean over heads")
    return figure


def _name(axes: "Axes", found: AttentionMaps, *, x: bool, y: bool) -> None:
    """Write the tokens where there is an edge to write them on."""
    places = range(len(found.tokens))
    size = 7 if len(found.tokens) <= 24 else 5
    axes.set_xticks(places, found.tokens if x else [""] * len(places), rotation=90, fontsize=size)
    axes.set_yticks(places, found.tokens if y else [""] * len(places), fontsize=size)
    axes.tick_params(length=0)
    for at, role in enumerate(found.roles):
        if role in _MARKED:
            for label in (axes.get_xticklabels()[at], axes.get_yticklabels()[at]):
                label.set(color=MARK, fontweight="bold")


def _readable(token: str) -> str:
    """A token without its tokenizer's sign for a space."""
    return token.replace("Ġ", " ").replace("▁", " ").strip() or token
