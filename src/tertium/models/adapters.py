"""Small differences from a known model: how a trained model ships in a few megabytes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from torch import Tensor, nn

from tertium.errors import TertiumError
from tertium.models.checkpoints import read_tensors
from tertium.models.encoder import Encoder
from tertium.records.manifest import FILE_NAME, Manifest
from tertium.types import Pooling

__all__ = [
    "ADAPTER",
    "HEAD",
    "adapted_encoder",
    "apply_adapter",
    "extract_adapter",
    "load_adapter",
    "load_head",
]

ADAPTER = "adapter.safetensors"
HEAD = "head.safetensors"

# Names in an adapter: ``X.down`` and ``X.up`` for a low-rank matrix, ``X.delta`` for a small one.
_DOWN, _UP, _DELTA = ".down", ".up", ".delta"


def extract_adapter(
    base: nn.Module, tuned: Mapping[str, Tensor], *, rank: int
) -> dict[str, Tensor]:
    """What training changed, in half precision: matrices by their best rank-``rank`` part.

    The truncated singular value decomposition is the closest matrix of that rank (Eckart & Young,
    1936); vectors (biases, LayerNorm) are kept whole. Embedding tables must not have been trained.
    """
    adapter: dict[str, Tensor] = {}
    for name, before in base.state_dict().items():
        delta = tuned[name].detach().float() - before.float()
        if not delta.any():
            continue
        if delta.ndim == 1:
            adapter[name + _DELTA] = delta.half()
        elif "embeddings" in name:
            raise TertiumError(
                f"{name} was trained; an adapter leaves embeddings alone. Set encoder.freeze to "
                "embeddings in the recipe."
            )
        else:
            u, s, v = torch.linalg.svd(delta, full_matrices=False)
            root = s[:rank].sqrt()
            adapter[name + _UP] = (u[:, :rank] * root).half().contiguous()
            adapter[name + _DOWN] = (root[:, None] * v[:rank]).half().contiguous()
    return adapter


@torch.no_grad()
def apply_adapter(model: nn.Module, adapter: Mapping[str, Tensor]) -> None:
    """Add an adapter's differences to the weights of ``model``, in place."""
    weights = dict(model.named_parameters())
    for key, value in adapter.items():
        name, _, part = key.rpartition(".")
        if name not in weights:
            raise TertiumError(f"The adapter changes {name}, which this model does not have.")
        if f".{part}" == _DOWN and name + _UP in adapter:
            continue  # a factor of that one
        change = value.float() if f".{part}" == _DELTA else None
        if f".{part}" == _UP:
            change = _product(value, adapter.get(name + _DOWN))
        if change is None or change.shape != weights[name].shape:
            raise TertiumError(
                f"The adapter's {key} does not fit {name} of this model. Fetch or train it again."
            )
        weights[name].add_(change)


def change_weights(weights: dict[str, NDArray[Any]], file: Path) -> dict[str, NDArray[Any]]:
    """``weights`` with what the adapter in ``file`` changes."""
    found = dict(weights)
    adapter = load_file(file)
    for key, value in adapter.items():
        name, _, part = key.rpartition(".")
        if f".{part}" == _DELTA:
            change = value.astype(np.float64)
        elif f".{part}" == _UP:
            change = value.astype(np.float64) @ adapter[name + _DOWN].astype(np.float64)
        else:
            continue
        found[name] = (found[name] + change).astype(np.float32)
    return found


def load_adapter(model: nn.Module, file: Path) -> dict[str, Tensor]:
    """Apply the adapter in ``file`` to ``model``, in place; gives its tensors."""
    adapter = read_tensors(file)
    try:
        apply_adapter(model, adapter)
    except TertiumError as error:
        raise TertiumError(f"{file}: {error}") from error
    return adapter


def adapted_encoder(
    encoder: Encoder, folder: Path, manifest: Manifest, *, pooling: Pooling | None = None
) -> tuple[Encoder, dict[str, Tensor]]:
    """The encoder that the adapter in ``folder`` makes of its base, in place; and its tensors."""
    if not isinstance(encoder, Encoder):
        return encoder.adapted(folder / ADAPTER, manifest, pooling=pooling), {}
    pooling = pooling or manifest.pooling
    if pooling is not None:
        encoder = encoder.with_pooling(pooling, normalize=manifest.details.get("normalize"))
    adapter = load_adapter(encoder.backbone, folder / ADAPTER)
    encoder.training_data = manifest.training_data
    return encoder, adapter


def load_head(head: nn.Module, file: Path) -> None:
    """Give ``head`` the weights in ``file``, which may be stored in half precision."""
    weights = {name: tensor.float() for name, tensor in read_tensors(file).items()}
    try:
        head.load_state_dict(weights)
    except RuntimeError as error:
        raise TertiumError(f"{file} does not fit the head in {FILE_NAME}.") from error


def _product(up: Tensor, down: Tensor | None) -> Tensor | None:
    if down is None or up.ndim != 2 or down.ndim != 2 or up.shape[1] != len(down):
        return None
    return up.float() @ down.float()
