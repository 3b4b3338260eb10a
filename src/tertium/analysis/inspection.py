"""Size and cost of a model, its CLS energy, and its place in the alignment-uniformity plane."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.drawing import blank_figure, series_style, shortened
from tertium.errors import TertiumError
from tertium.functional.modulus import cls_energy
from tertium.models import ConditionalScorer, Encoder, PairScorer
from tertium.models.base import Model
from tertium.models.encoder import evaluating
from tertium.models.tokens import TokenizationStats, chunks
from tertium.models.twin import encoder_layers
from tertium.progress import bar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Inspection",
    "Place",
    "alignment_uniformity_plane",
    "efficiency",
    "encoder_macs",
    "energy_against_scores",
    "energy_curves",
    "head_parameters",
    "inspect_encoders",
    "layer_energies",
]

_BATCH = 32


@dataclass(frozen=True)
class Inspection:
    """Size, cost and CLS energy of a model.

    Attributes:
        backbones: number of transformers that read each text.
        parameters: number of their parameters.
        macs: multiply-accumulates for one text of ``tokens`` tokens.
        tokens: the length of that text.
        energy: CLS energy of each layer, averaged over texts and backbones; empty without texts.
    """

    backbones: int
    parameters: int
    macs: int
    tokens: int
    energy: tuple[float, ...] = ()


def encoder_macs(*, tokens: int, layers: int, width: int, feed_forward: int) -> int:
    """Multiply-accumulates of a transformer encoder for one text.

    Each layer has four projections of ``width²`` and two of ``width x feed_forward`` per token, and
    two products of ``width`` per pair of tokens. Embedding lookups, normalisation, softmax and
    activations are not counted.

    >>> encoder_macs(tokens=1, layers=1, width=2, feed_forward=8)
    52
    """
    per_token = 4 * width**2 + 2 * width * feed_forward
    per_pair = 2 * width
    return layers * (tokens * per_token + tokens**2 * per_pair)


def efficiency(score: float, macs: int) -> float:
    """``η``: score per billion multiply-accumulates (JTCSE, section V)."""
    return score / (macs / 1e9)


def inspect_encoders(
    encoders: Sequence[Encoder],
    *,
    tokens: int = 32,
    texts: Sequence[str] = (),
    progress: bool | None = None,
) -> Inspection:
    """Inspect a model of one or more encoders.

    Args:
        encoders: plain encoders and twins.
        tokens: length of the text whose cost is counted.
        texts: texts to measure the CLS energy on.
        progress: False for no progress on standard error.
    """
    backbones = [backbone for encoder in encoders for backbone in encoder.backbones]
    energies = (
        [layer_energies(encoder, texts, progress=progress) for encoder in encoders] if texts else []
    )
    if len({len(energy) for energy in energies}) > 1:
        raise TertiumError("These encoders differ in depth: measure their CLS energy one by one.")
    return Inspection(
        backbones=len(backbones),
        parameters=sum(p.numel() for backbone in backbones for p in backbone.parameters()),
        macs=sum(_macs(backbone, tokens) for backbone in backbones),
        tokens=tokens,
        energy=tuple(torch.stack(energies).mean(dim=0).tolist()) if energies else (),
    )


def head_parameters(model: Model) -> dict[str, int]:
    """Parameters of a model's heads, by part; empty for a plain embedder.

    SEAVER's are ``augmentation``, the heads · d · d of its paper, and ``regressor``.
    """
    scorers = [model, *(member.model for member in model.members)]
    heads = [each.head for each in scorers if isinstance(each, PairScorer | ConditionalScorer)]
    counts: dict[str, int] = {}
    for head in dict.fromkeys(heads):
        for name, parameter in head.named_parameters():
            part = name.partition(".")[0]
            counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def _macs(backbone: Any, tokens: int) -> int:
    config = backbone.config
    return encoder_macs(
        tokens=tokens,
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        feed_forward=config.intermediate_size,
    )


def layer_energies(
    encoder: Encoder, texts: Sequence[str], *, progress: bool | None = None
) -> Float[Tensor, " layers"]:
    """CLS energy of each layer, averaged over texts, and over both towers of a twin.

    Args:
        encoder: an encoder with BERT- or RoBERTa-like backbones.
        texts: the texts to measure on.
        progress: False for no progress on standard error.
    """
    if not texts:
        raise TertiumError("Measuring the CLS energy needs at least one text.")
    ordered = sorted(texts, key=len)
    found: list[Tensor] = []
    truncation = TokenizationStats()
    with (
        torch.inference_mode(),
        evaluating(encoder.model),
        bar(total=len(texts), label="CLS energy", unit="text", show=progress) as shown,
    ):
        for batch in chunks(ordered, _BATCH):
            features = encoder.features(batch, truncation=truncation)
            towers = []
            for backbone in encoder.backbones:
                with _contexts(backbone) as contexts:
                    backbone(features["input_ids"], attention_mask=features["attention_mask"])
                mask = features["attention_mask"]
                towers.append(torch.stack([cls_energy(context, mask) for context in contexts]))
            found.append(torch.stack(towers).mean(dim=0))
            shown.update(len(batch))
    truncation.report()
    return torch.cat(found, dim=1).mean(dim=1)


@contextlib.contextmanager
def _contexts(backbone: Any) -> Iterator[list[Tensor]]:
    """Collect each layer's attention times values, heads joined, during a forward pass."""
    contexts: list[Tensor] = []
    hooks = [
        layer.attention.output.register_forward_pre_hook(
            lambda _, inputs: contexts.append(inputs[0])
        )
        for layer in encoder_layers(backbone)
    ]
    try:
        yield contexts
    finally:
        for hook in hooks:
            hook.remove()


@dataclass(frozen=True)
class Place:
    """A model's position in the alignment-uniformity plane.

    Attributes:
        alignment: mean squared distance of pairs that mean the same.
        uniformity: log mean Gaussian potential of all sentences.
        score: an STS score for the label, times 100.
    """

    alignment: float
    uniformity: float
    score: float | None = None


def alignment_uniformity_plane(places: Mapping[str, Place]) -> "Figure":
    """Alignment against uniformity, lower left is better on both: JTCSE, Figure 7."""
    figure = blank_figure(6.2, 4.2)
    axes = figure.add_subplot()
    for at, (name, place) in enumerate(places.items()):
        label = shortened(name)
        if place.score is not None:
            label += f" ({place.score:.1f})"
        _point(axes, at, place.uniformity, place.alignment, label)
    axes.set_xlabel("uniformity  (left: spread over the whole sphere)")
    axes.set_ylabel("alignment  (down: same meaning, same place)")
    _room(axes, width=0.4, height=0.1)
    return figure


def energy_curves(energies: Mapping[str, Sequence[float]]) -> "Figure":
    """CLS energy of each layer, one line per model."""
    figure = blank_figure(6.2, 3.6)
    axes = figure.add_subplot()
    deepest = max(len(energy) for energy in energies.values())
    for at, (name, energy) in enumerate(energies.items()):
        colour, marker = series_style(at)
        layers = range(1, len(energy) + 1)
        axes.plot(layers, energy, color=colour, marker=marker, ms=5, label=shortened(name))
    step = max(1, deepest // 12)
    axes.set_xticks(range(1, deepest + 1, step))
    axes.set_xlabel("layer")
    axes.set_ylabel("CLS energy")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


def energy_against_scores(points: Mapping[str, tuple[float, float]]) -> "Figure":
    """STS score against mean CLS energy, one point per model: JTCSE, Figure 10.

    Args:
        points: energy and score times 100 of each model.
    """
    figure = blank_figure(6.2, 3.8)
    axes = figure.add_subplot()
    for at, (name, (energy, score)) in enumerate(points.items()):
        _point(axes, at, energy, score, shortened(name))
    axes.set_xlabel("CLS energy, averaged over layers")
    axes.set_ylabel("Spearman x 100")
    _room(axes, width=0.05, height=5.0)
    return figure


def _point(axes: "Axes", at: int, x: float, y: float, label: str) -> None:
    colour, marker = series_style(at)
    axes.scatter([x], [y], color=colour, marker=marker, s=70, label=label, zorder=3)


def _room(axes: "Axes", *, width: float, height: float) -> None:
    """Add margins and a legend, and a minimum span of both axes.

    Without it, models that hardly differ would appear far apart.
    """
    axes.margins(0.2)
    for limits, least, change in (
        (axes.get_xlim(), width, axes.set_xlim),
        (axes.get_ylim(), height, axes.set_ylim),
    ):
        middle, span = (limits[0] + limits[1]) / 2, limits[1] - limits[0]
        if span < least:
            change(middle - least / 2, middle + least / 2)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0)
