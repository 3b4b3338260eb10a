"""One way to hash weights, for everything that must know a model again."""

import hashlib

import torch
from torch import nn

__all__ = ["hash_weights"]


def hash_weights(module: nn.Module, digest: "hashlib._Hash") -> None:
    """Feed names, types, shapes and values of all of ``module``'s tensors to ``digest``."""
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
