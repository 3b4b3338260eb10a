"""Fingerprints of models: hashes of weights, configurations and vocabularies.

Values are hashed, not files: a model has the same fingerprint however it is read and wherever it
was saved.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from tertium.files import remembered_digest
from tertium.models.graphs import Module, NoGraphError, pooling_mode, settings

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "architecture",
    "arrays_digest",
    "hash_weights",
    "is_read",
    "module_config",
    "module_states",
    "numbers",
    "tensors_digest",
    "weights_in",
]

# Entries of a configuration about where a model comes from, not what it computes.
_ORIGIN = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}
_DERIVED = {"output_hidden_states"}  # follows from the pooling


def is_read(name: str) -> bool:
    """Whether hidden states depend on a backbone's tensor; its own pooler is not used."""
    return not (name.startswith("pooler.") or ".pooler." in name or name.endswith("position_ids"))


def tensors_digest(tensors: Iterable[tuple[str, NDArray[Any]]]) -> str:
    """The sha256 of names, types, shapes and values of tensors, which are sorted by name."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def weights_in(file: Path) -> str:
    """The hash of a backbone's tensors in a safetensors file, cached until the file changes."""

    def compute(path: Path) -> str:
        with safe_open(path, framework="numpy") as stored:
            names = sorted(name for name in stored.keys() if is_read(name))  # noqa: SIM118
            return tensors_digest((name, stored.get_tensor(name)) for name in names)

    return remembered_digest(file, compute, what="tensors")


def numbers(module: "nn.Module") -> dict[str, NDArray[Any]]:
    """The weights of a torch module as numpy arrays; bfloat16 as integers of the same bits."""
    return {name: _stored(tensor) for name, tensor in module.state_dict().items()}


def _stored(tensor: "Tensor") -> NDArray[Any]:
    import torch

    flat = tensor.detach().cpu().contiguous()
    if flat.dtype is torch.bfloat16:  # numpy has none
        return np.asarray(flat.view(torch.int16).numpy())
    return np.asarray(flat.numpy())


def hash_weights(module: "nn.Module", digest: "hashlib._Hash") -> None:
    """Feed names, types, shapes and values of all of ``module``'s tensors to ``digest``."""
    import torch

    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)


def arrays_digest(arrays: Mapping[str, NDArray[Any]], description: Any) -> str:
    """The sha256 of a description in plain values and of all weights, sorted by name."""
    found = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    for name, value in sorted(arrays.items()):
        found.update(f"{name} torch.{value.dtype} {value.shape}\n".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def architecture(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration that affects the model's results."""
    try:
        return settings(config)
    except (NoGraphError, LookupError, TypeError):
        return {key: value for key, value in config.items() if key not in _ORIGIN | _DERIVED}


def module_config(module: "nn.Module") -> tuple[str, dict[str, Any]]:
    """Name and settings of a module of sentence-transformers."""
    config: dict[str, Any] = getattr(module, "get_config_dict", dict)()
    return type(module).__name__, config


def module_states(modules: Sequence[Module]) -> list[Any]:
    """What the modules after a transformer compute, whichever library version saved them."""
    return [_module_state(module) for module in modules]


def _module_state(module: Module) -> Any:
    kind, config = module.kind, module.config
    if kind == "Normalize":
        return [kind]
    if kind == "Pooling":
        return [kind, pooling_mode(config), bool(config.get("include_prompt", True))]
    weights = tensors_digest(sorted(module.weights.items()))
    if kind == "Dense":
        return [kind, str(config.get("activation_function")).rpartition(".")[2], weights]
    if kind == "WeightedLayerPooling":
        return [kind, config["layer_start"], weights]
    return [kind, dict(config), weights]
