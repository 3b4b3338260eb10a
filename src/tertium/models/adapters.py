"""Adapters: small differences from a known model, so that a trained model takes a few megabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save_file

from tertium.errors import TertiumError
from tertium.heads.layout import HEAD_KINDS, ModelShape, complete, weight_shapes
from tertium.models.checkpoints import Arrays, read_arrays
from tertium.records.manifest import FILE_NAME, Manifest
from tertium.types import Pooling

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tertium.heads import ConditionalHead, PairHead

__all__ = [
    "ADAPTER",
    "HEAD",
    "HeadHolder",
    "SavedHead",
    "adapted_encoder",
    "apply_adapter",
    "change_weights",
    "extract_adapter",
    "kept_layers",
    "load_adapter",
    "read_head",
    "write_adapter",
]

H = TypeVar("H", bound="PairHead | ConditionalHead")

ADAPTER = "adapter.safetensors"
HEAD = "head.safetensors"

# Names in an adapter: ``X.down`` and ``X.up`` for a low-rank matrix, ``X.delta`` for a small one.
_DOWN, _UP, _DELTA = ".down", ".up", ".delta"


def extract_adapter(
    base: nn.Module, tuned: Mapping[str, Tensor], *, rank: int, factor: float = 1.0
) -> dict[str, Tensor]:
    """The changes made by training, in half precision, with matrices approximated at rank ``rank``.

    The truncated singular value decomposition is the closest matrix of that rank (Eckart & Young,
    1936); vectors (biases, LayerNorm) are kept whole, and so are matrices whose two factors would
    be no smaller. Embedding tables must not have been trained.

    Args:
        base: the model before training.
        tuned: the weights after training.
        rank: rank of the matrices' changes.
        factor: scales all changes; between 0 and 1 the result lies between both models.
    """
    import torch

    adapter: dict[str, Tensor] = {}
    for name, before in base.state_dict().items():
        delta = factor * (tuned[name].detach().float() - before.float())
        if not delta.any():
            continue
        if "embeddings" in name and delta.ndim > 1:
            raise TertiumError(
                f"{name} was trained, but an adapter cannot change embeddings. Set encoder.freeze "
                "to embeddings in the recipe."
            )
        if delta.ndim == 1 or rank * sum(delta.shape) >= delta.numel():
            adapter[name + _DELTA] = delta.half()
        else:
            u, s, v = torch.linalg.svd(delta, full_matrices=False)
            root = s[:rank].sqrt()
            adapter[name + _UP] = (u[:, :rank] * root).half().contiguous()
            adapter[name + _DOWN] = (root[:, None] * v[:rank]).half().contiguous()
    return adapter


def change_weights(weights: Arrays, file: Path) -> Arrays:
    """A copy of ``weights`` with the adapter in ``file`` applied."""
    with _named(file):
        shapes = {name: value.shape for name, value in weights.items()}
        found = _changes(read_arrays(file), shapes)
        changed = ((name, weights[name] + change) for name, change in found)
        return weights | {name: value.astype(np.float32) for name, value in changed}


def apply_adapter(model: nn.Module, adapter: Mapping[str, Any]) -> None:
    """Apply an adapter of tensors or arrays to ``model``, in place."""
    import torch

    weights = dict(model.named_parameters())
    arrays = {name: np.asarray(value) for name, value in adapter.items()}
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    with torch.no_grad():
        for name, change in _changes(arrays, shapes):
            weights[name].copy_(weights[name].double() + torch.from_numpy(change))


def write_adapter(adapter: Mapping[str, ArrayLike], folder: Path) -> None:
    """Write an adapter's tensors or arrays into ``folder``."""
    arrays = {name: np.ascontiguousarray(value) for name, value in adapter.items()}
    save_file(arrays, folder / ADAPTER)


def load_adapter(model: nn.Module, file: Path) -> Arrays:
    """Apply the adapter in ``file`` to ``model``, in place, and return its arrays."""
    adapter = read_arrays(file)
    with _named(file):
        apply_adapter(model, adapter)
    return adapter


def adapted_encoder(
    encoder: Any, folder: Path, manifest: Manifest, *, pooling: Pooling | None = None
) -> tuple[Any, Arrays]:
    """A base with the adapter in ``folder`` applied, and the adapter's arrays.

    An encoder of torch is changed in place, and must have only the layers that the adapter keeps.
    """
    if encoder.needs_engine:
        adapted = encoder.adapted(folder / ADAPTER, manifest, pooling=pooling)
        return adapted, read_arrays(folder / ADAPTER)
    pooling = pooling or manifest.pooling
    if pooling is not None:
        encoder = encoder.with_pooling(pooling, normalize=manifest.details.get("normalize"))
    adapter = load_adapter(encoder.backbone, folder / ADAPTER)
    encoder.training_data = manifest.training_data
    return encoder, adapter


def kept_layers(folder: Path, manifest: Manifest) -> tuple[int, ...] | None:
    """The layers of its base that the adapter in ``folder`` keeps, counted from 1; None for all."""
    layers = manifest.details.get("layers")
    if layers is None:
        return None
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise TertiumError(
            f"{folder / FILE_NAME}: layers must be a list of numbers. Fetch the model again."
        )
    return tuple(layers)


@dataclass(frozen=True)
class SavedHead:
    """A head as saved in a folder, without torch.

    Attributes:
        config: ``kind`` and settings.
        weights: weights in single precision.
    """

    config: dict[str, Any]
    weights: Arrays


def read_head(folder: Path, config: Mapping[str, Any], shape: ModelShape) -> SavedHead:
    """The head with this configuration and the weights in ``folder``, of any precision."""
    file, known = folder / HEAD, config["kind"] in HEAD_KINDS
    weights = {name: value.astype(np.float32) for name, value in read_arrays(file).items()}
    if not known:  # a user's own head, which torch checks
        return SavedHead(dict(config), weights)
    with _named(folder / FILE_NAME):
        settings = complete(config)
    if {name: value.shape for name, value in weights.items()} != weight_shapes(settings, shape):
        raise TertiumError(f"{file} does not fit the head in {FILE_NAME}.")
    return SavedHead(settings, weights)


class HeadHolder(Generic[H]):
    """A model's head: a torch module, or a saved head until torch is needed.

    Args:
        head: either.
        build: creates a new module from a saved head's settings.
    """

    def __init__(self, head: H | SavedHead, build: Callable[[dict[str, Any]], H]) -> None:
        self._given = head
        self._build = build

    @property
    def module(self) -> H:
        """The torch module, made on first use."""
        if isinstance(self._given, SavedHead):
            import torch

            saved, head = self._given, self._build(dict(self._given.config))
            weights = {name: torch.from_numpy(x.copy()) for name, x in saved.weights.items()}
            try:
                head.load_state_dict(weights)
            except RuntimeError as error:
                raise TertiumError(f"{HEAD} does not fit the head in {FILE_NAME}.") from error
            self._given = cast(H, head.eval())
        return self._given

    @property
    def config(self) -> dict[str, Any]:
        """``kind`` and settings."""
        if isinstance(self._given, SavedHead):
            return dict(self._given.config)
        return dict(self._given.config())

    @property
    def weights(self) -> Arrays:
        """The current weights, in single precision."""
        if isinstance(self._given, SavedHead):
            return self._given.weights
        tensors = self._given.state_dict().items()
        return {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors}


def _changes(
    adapter: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The change of each weight that an adapter affects.

    In double precision the products of half-precision factors are exact, so the weights are the
    same on every machine, whatever the order of summation.
    """
    for key, value in adapter.items():
        name, _, part = key.rpartition(".")
        if name not in shapes:
            raise TertiumError(f"The adapter changes {name}, which this model does not have.")
        if f".{part}" == _DOWN and name + _UP in adapter:
            continue  # the other factor, used with ``up``
        change = value.astype(np.float64) if f".{part}" == _DELTA else None
        if f".{part}" == _UP:
            change = _product(value, adapter.get(name + _DOWN))
        if change is None or change.shape != tuple(shapes[name]):
            raise TertiumError(
                f"The adapter's {key} does not fit {name} of this model. Fetch or train it again."
            )
        yield name, change


def _product(up: NDArray[Any], down: NDArray[Any] | None) -> NDArray[np.float64] | None:
    if down is None or up.ndim != 2 or down.ndim != 2 or up.shape[1] != len(down):
        return None
    return up.astype(np.float64) @ down.astype(np.float64)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Prefix errors inside the block with the file."""
    try:
        yield
    except TertiumError as error:
        raise TertiumError(f"{file}: {error}") from error
