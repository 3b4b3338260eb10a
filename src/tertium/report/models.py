"""Models as a report sees them: names, parts that can be looked into, and facts."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tertium.analysis import inspect_encoders
from tertium.errors import TertiumError
from tertium.models import ConditionalAverage, Encoder, Ensemble, PairScorer, TripleGrader
from tertium.models.static import StaticEncoder
from tertium.models.towers import tower_encoders
from tertium.types import Kind

__all__ = ["Facts", "Model", "Part", "facts_of", "kind_of", "labels_of", "parts_of"]

Model = Encoder | PairScorer | Ensemble | TripleGrader


@dataclass(frozen=True)
class Part:
    """One transformer of a model."""

    label: str
    encoder: Encoder


@dataclass(frozen=True)
class Facts:
    """What a model is.

    Attributes:
        kind: as ``tertium.json`` names it.
        pooling: how tokens become a vector.
        dimension: width of an embedding; None for a model that gives none.
        scale: lowest and highest score.
        backbones: transformers that read each text.
        parameters: of the whole model.
        macs: multiply-accumulates for a text of 32 tokens; None where they cannot be counted.
        sha256: of all weights.
        training_data: what its card lists.
    """

    kind: str
    pooling: str | None
    dimension: int | None
    scale: tuple[float, float]
    backbones: int
    parameters: int
    macs: int | None
    sha256: str
    training_data: tuple[str, ...]


def labels_of(names: Sequence[str]) -> list[str]:
    """What the page calls each model: the last part of its name, if that is enough.

    >>> labels_of(["default", "runs/a/model", "runs/b/model", "runs/c"])
    ['default', 'runs/a/model', 'runs/b/model', 'c']
    """
    if len(set(names)) < len(names):
        raise TertiumError(f"Name every model once: {', '.join(names)}.")
    last = [Path(name).name or name for name in names]
    return [
        short if last.count(short) == 1 else name for name, short in zip(names, last, strict=True)
    ]


def kind_of(model: Model) -> Kind:
    """Which kind of model this is."""
    if isinstance(model, Encoder):
        return model.kind
    if isinstance(model, PairScorer):
        return Kind.PAIR
    return Kind.ENSEMBLE if isinstance(model, Ensemble) else Kind.CONDITIONAL


def parts_of(model: Model, label: str) -> list[Part]:
    """Every transformer of a model, with a name of its own; a static model has none."""
    encoders = _encoders(model)
    found: list[Part] = []
    for number, encoder in enumerate(encoders, 1):
        own = label if len(encoders) == 1 else f"{label}, part {number}"
        if isinstance(encoder, StaticEncoder):
            continue
        if encoder.kind is Kind.TWIN:
            towers = zip(("tower I", "tower II"), tower_encoders(encoder), strict=True)
            found += [Part(f"{own}, {name}", tower) for name, tower in towers]
        else:
            found.append(Part(own, encoder))
    return found


def facts_of(model: Model, parts: Sequence[Part]) -> Facts:
    """What the table of models says of it."""
    pooling = model.pooling
    training_data = dict.fromkeys(
        f"{data.name} {data.split or ''} ({data.use})".replace("  ", " ")
        for data in model.training_data
    )
    return Facts(
        kind=str(kind_of(model)),
        pooling=None if pooling is None else str(pooling),
        dimension=None if isinstance(model, TripleGrader) else model.dimension,
        scale=model.scale,
        backbones=len(parts),
        parameters=sum(p.numel() for module in _modules(model) for p in module.parameters()),
        macs=_macs(parts),
        sha256=_digest(model),
        training_data=tuple(training_data),
    )


def _encoders(model: Model) -> list[Encoder]:
    if isinstance(model, Encoder):
        return [model]
    if isinstance(model, Ensemble):
        return [member.encoder for member in model.members]
    if isinstance(model, ConditionalAverage):
        return [scorer.encoder for scorer in model.scorers]
    return [model.encoder]


def _modules(model: Model) -> Iterator[nn.Module]:
    for encoder in _encoders(model):
        yield encoder.model
    heads = model.scorers if isinstance(model, ConditionalAverage) else [model]
    for owner in heads:
        head = getattr(owner, "head", None)
        if isinstance(head, nn.Module):
            yield head


def _macs(parts: Sequence[Part]) -> int | None:
    """The cost of one text, for architectures whose cost formula is known."""
    known = ("num_hidden_layers", "hidden_size", "intermediate_size")
    configs: list[Any] = [part.encoder.backbone.config for part in parts]
    if not parts or any(not hasattr(config, name) for config in configs for name in known):
        return None
    return inspect_encoders([part.encoder for part in parts]).macs


def _digest(model: Model) -> str:
    digest = hashlib.sha256()
    for module in _modules(model):
        for name, tensor in sorted(module.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
