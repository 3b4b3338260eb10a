"""Poolings as stock sentence-transformers modules, so that a saved model does not need tertium."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from sentence_transformers.base.modules import Dense, Module, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling as StockPooling
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
from torch import Tensor, nn
from transformers import AutoModel

from tertium.errors import TertiumWarning
from tertium.models.checkpoints import published_pooling, quiet, read_options, trained_mlp
from tertium.types import LAYER_MIXES, Pooling

__all__ = ["POOLINGS", "infer_pooling", "pooling_modules"]

_FRESH_HEAD_SEED = 42
_STOCK = {"lasttoken": Pooling.LAST}  # names in sentence-transformers


class Origin(NamedTuple):
    """The arguments of :func:`pooling_modules`."""

    transformer: Transformer
    checkpoint: Path | None
    name: str

    def stock(self, mode: str) -> Module:
        """A pooling of sentence-transformers."""
        pooling: Module = StockPooling(self.transformer.get_embedding_dimension(), mode)
        return pooling


def pooling_modules(
    transformer: Transformer, pooling: Pooling, *, checkpoint: Path | None = None, name: str = ""
) -> list[Module]:
    """The modules that follow ``transformer`` for a pooling.

    Args:
        transformer: the first module of the model.
        pooling: which pooling to express.
        checkpoint: folder with the pretrained pooler for ``pooler`` and the MLP for ``cls_mlp``;
            if it has none, or without a folder, the layer is new and seeded.
        name: the model's name; published models contain their MLP as the pooler.
    """
    return POOLINGS[pooling](Origin(transformer, checkpoint, name))


def infer_pooling(modules: Sequence[nn.Module]) -> Pooling | None:
    """Which of our poolings a list of sentence-transformers modules implements, if any."""
    names = [
        type(module).__name__ for module in modules[1:] if type(module).__name__ != "Normalize"
    ]
    if names == ["Pooling"]:
        mode = str(modules[1].pooling_mode)
        return Pooling(mode) if mode in ("cls", "mean") else _STOCK.get(mode)
    if names == ["Pooling", "Dense"] and modules[1].pooling_mode == "cls":
        return Pooling.CLS_MLP
    return None


def _cls_mlp(origin: Origin) -> list[Module]:
    trained = None
    if origin.checkpoint is not None:
        trained = trained_mlp(origin.checkpoint)
        if trained is None and published_pooling(origin.name, origin.checkpoint) is not None:
            trained = _pretrained_pooler(origin.checkpoint)
    return [origin.stock("cls"), _dense_or_fresh(origin, trained)]


def _pooler(origin: Origin) -> list[Module]:
    trained = None if origin.checkpoint is None else _pretrained_pooler(origin.checkpoint)
    return [origin.stock("cls"), _dense_or_fresh(origin, trained)]


def _layer_mix(pooling: Pooling, origin: Origin) -> list[Module]:
    """Weights 1 on the two mixed layers, 0 between; the mean over tokens follows."""
    transformer = origin.transformer
    layers = int(transformer.model.config.num_hidden_layers)
    one, other = (index % (layers + 1) for index in LAYER_MIXES[pooling])
    weights = torch.zeros(layers + 1 - one)
    weights[[0, other - one]] = 1.0
    mix = WeightedLayerPooling(
        transformer.get_embedding_dimension(),
        num_hidden_layers=layers,
        layer_start=one,
        layer_weights=nn.Parameter(weights, requires_grad=False),
    )
    return [mix, origin.stock("mean")]


# Functions that create the modules after a transformer.
POOLINGS: dict[Pooling, Callable[[Origin], list[Module]]] = {
    Pooling.CLS: lambda origin: [origin.stock("cls")],
    Pooling.CLS_MLP: _cls_mlp,
    Pooling.MEAN: lambda origin: [origin.stock("mean")],
    Pooling.LAST: lambda origin: [origin.stock("lasttoken")],
    **{pooling: partial(_layer_mix, pooling) for pooling in LAYER_MIXES},
    Pooling.POOLER: _pooler,
}


def _dense(weight: Tensor, bias: Tensor) -> Dense:
    width = len(bias)
    return Dense(width, width, activation_function=nn.Tanh(), init_weight=weight, init_bias=bias)


def _dense_or_fresh(origin: Origin, trained: tuple[Tensor, Tensor] | None) -> Dense:
    if trained is not None:
        return _dense(*trained)
    width = origin.transformer.get_embedding_dimension()
    spread = float(getattr(origin.transformer.model.config, "initializer_range", 0.02))
    generator = torch.Generator().manual_seed(_FRESH_HEAD_SEED)
    return _dense(torch.randn(width, width, generator=generator) * spread, torch.zeros(width))


def _pretrained_pooler(checkpoint: Path) -> tuple[Tensor, Tensor] | None:
    with quiet():
        model, loading = AutoModel.from_pretrained(
            checkpoint, output_loading_info=True, **read_options(checkpoint)
        )
    pooler = getattr(getattr(model, "pooler", None), "dense", None)
    if pooler is None or any("pooler" in key for key in loading["missing_keys"]):
        warnings.warn(
            f"{checkpoint} has no pretrained pooler: a new one (seed {_FRESH_HEAD_SEED}) is used "
            "and will be saved with the model.",
            TertiumWarning,
            stacklevel=2,
        )
        return None
    return pooler.weight.detach().clone(), pooler.bias.detach().clone()
