"""What a model is made of, what it costs, and how much of its energy is in CLS."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tertium.errors import TertiumError
from tertium.functional.cost import encoder_macs
from tertium.functional.modulus import cls_energy
from tertium.models import Encoder
from tertium.models.encoder import evaluating
from tertium.models.tokens import TokenizationStats, chunks
from tertium.models.twin import encoder_layers
from tertium.progress import bar

__all__ = ["Inspection", "inspect_encoders", "layer_energies"]

_BATCH = 32


@dataclass(frozen=True)
class Inspection:
    """One model in figures.

    Attributes:
        backbones: how many transformers read each text.
        parameters: of all of them.
        macs: multiply-accumulates for one text of ``tokens`` tokens.
        tokens: the length they are counted for.
        energy: CLS energy of each layer, the mean over texts and backbones; empty without texts.
    """

    backbones: int
    parameters: int
    macs: int
    tokens: int
    energy: tuple[float, ...] = ()


def inspect_encoders(
    encoders: Sequence[Encoder],
    *,
    tokens: int = 32,
    texts: Sequence[str] = (),
    progress: bool | None = None,
) -> Inspection:
    """Look at a model: one encoder, or all that read a text together.

    Args:
        encoders: plain encoders and twins.
        tokens: length of the text whose cost is counted.
        texts: to measure the CLS energy on.
        progress: False for no progress on standard error.
    """
    backbones = [backbone for encoder in encoders for backbone in encoder.backbones]
    energies = (
        [layer_energies(encoder, texts, progress=progress) for encoder in encoders] if texts else []
    )
    if len({len(energy) for energy in energies}) > 1:
        raise TertiumError("These encoders differ in depth: ask for their CLS energy one by one.")
    return Inspection(
        backbones=len(backbones),
        parameters=sum(p.numel() for backbone in backbones for p in backbone.parameters()),
        macs=sum(_macs(backbone, tokens) for backbone in backbones),
        tokens=tokens,
        energy=tuple(torch.stack(energies).mean(dim=0).tolist()) if energies else (),
    )


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
    """CLS energy of each layer, the mean over texts, and over both towers of a twin.

    Args:
        encoder: with BERT- or RoBERTa-like backbones.
        texts: what it reads.
        progress: False for no progress on standard error.
    """
    if not texts:
        raise TertiumError("The CLS energy is measured on texts: give at least one.")
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
    """Each layer's attention times values, heads joined, as a forward pass computes them."""
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
