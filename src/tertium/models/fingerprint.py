"""What tells one model from another: hashes of weights, configurations and vocabularies."""

import hashlib
import json
from typing import Any

import torch
from torch import nn

__all__ = [
    "backbone_config",
    "hash_weights",
    "module_config",
    "tokenizer_content",
    "weights_digest",
]

# Entries of a configuration that say where a model comes from, and not what it computes.
_ORIGIN = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}
_DERIVED = {"output_hidden_states"}  # follows from the pooling


def hash_weights(module: nn.Module, digest: "hashlib._Hash") -> None:
    """Feed names, types, shapes and values of all of ``module``'s tensors to ``digest``."""
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)


def weights_digest(module: nn.Module, description: Any) -> str:
    """The sha256 of a description in plain values and of all weights."""
    text = json.dumps(description, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode())
    hash_weights(module, digest)
    return digest.hexdigest()


def backbone_config(config: dict[str, Any]) -> dict[str, Any]:
    """What a configuration says about the model's results."""
    return {key: value for key, value in config.items() if key not in _ORIGIN | _DERIVED}


def module_config(module: nn.Module) -> tuple[str, dict[str, Any]]:
    """Name and settings of a module of sentence-transformers."""
    config: dict[str, Any] = getattr(module, "get_config_dict", dict)()
    return type(module).__name__, config


def tokenizer_content(tokenizer: Any) -> Any:
    """A fast tokenizer without what each call sets anew; None for a slow one."""
    if tokenizer is None:
        return None
    content = json.loads(tokenizer.to_str())
    return {name: x for name, x in content.items() if name not in ("truncation", "padding")}
