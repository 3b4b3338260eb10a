"""Small differences from a known model: how a trained model ships in a few megabytes."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tertium.errors import TertiumError

__all__ = ["ADAPTER", "apply_adapter", "extract_adapter"]

ADAPTER = "adapter.safetensors"

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
        if f".{part}" == _DELTA:
            weights[name].add_(value.float())
        elif f".{part}" == _UP:
            weights[name].add_(value.float() @ adapter[name + _DOWN].float())
