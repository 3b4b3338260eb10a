"""miCSE's two looks at attention: joint histograms of two views, and meaning against structure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.drawing import blank_figure
from tertium.errors import TertiumError
from tertium.functional import cosine_pairs
from tertium.functional.attention_mi import (
    attention_layers,
    attention_slices,
    mutual_information,
    sample_positions,
    valid_positions,
)
from tertium.models import Encoder
from tertium.types import Encoded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PairInformation", "attention_histograms", "information_scatter", "pair_information"]

_SLICES = 12


@dataclass(frozen=True)
class PairInformation:
    """Meaning and structure of pairs of dropout views.

    Attributes:
        positive_cosines: of two views of the same text.
        positive_information: their attention mutual information, the mean over slices.
        negative_cosines: of views of two different texts.
        negative_information: theirs, on the positions that both texts have.
    """

    positive_cosines: Float[Tensor, " n"]
    positive_information: Float[Tensor, " n"]
    negative_cosines: Float[Tensor, " n"]
    negative_information: Float[Tensor, " n"]


def pair_information(
    encoder: Encoder, texts: Sequence[str], *, seed: int = 0, samples: int = 150
) -> PairInformation:
    """Cosine and attention mutual information of positive and negative pairs of views.

    Args:
        encoder: its own dropout makes the two views.
        texts: each is paired with itself, and with its neighbour as a negative.
        seed: of dropout and of the sampled positions.
        samples: positions per slice.
    """
    if len(texts) < 2:
        raise TertiumError("Negative pairs need at least two texts.")
    first, second = _views(encoder, texts, seed=seed)
    other = _rolled(second)
    return PairInformation(
        cosine_pairs(first.embedding, second.embedding),
        _information(first, second, samples=samples, seed=seed),
        cosine_pairs(first.embedding, other.embedding),
        _information(first, other, samples=samples, seed=seed),
    )


def information_scatter(found: PairInformation) -> "Figure":
    """Semantic similarity against attention mutual information: miCSE, Figure 1."""
    figure = blank_figure(6.5, 4.5)
    axes = figure.add_subplot()
    for name, cosines, information, colour, marker in (
        ("same text", found.positive_cosines, found.positive_information, "#0072B2", "o"),
        ("two texts", found.negative_cosines, found.negative_information, "#D55E00", "^"),
    ):
        axes.scatter(cosines, information, s=14, alpha=0.6, c=colour, marker=marker, label=name)
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
    """The same texts twice, with dropout and without gradients."""
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
    return _on_processor(first), _on_processor(second)


def _on_processor(encoded: Encoded) -> Encoded:
    """Plots are drawn from ordinary memory."""
    attention = encoded.attention
    return Encoded(
        embedding=encoded.embedding.cpu(),
        tokens=encoded.tokens.cpu(),
        mask=encoded.mask.cpu(),
        attention=None if attention is None else attention.cpu(),
        layers=encoded.layers,
    )


def _rolled(encoded: Encoded) -> Encoded:
    """Every text's neighbour in its place."""
    attention = encoded.attention
    return Encoded(
        embedding=encoded.embedding.roll(1, dims=0),
        tokens=encoded.tokens.roll(1, dims=0),
        mask=encoded.mask.roll(1, dims=0),
        attention=None if attention is None else attention.roll(1, dims=1),
        layers=encoded.layers,
    )


def _slices(first: Encoded, second: Encoded) -> tuple[Tensor, Tensor, Tensor]:
    if first.attention is None or second.attention is None:
        raise TertiumError("There is no attention to look at.")
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
