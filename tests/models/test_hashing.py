"""Hashing weights: equal models agree, and any change shows."""

import hashlib

import torch
from torch import nn

from tertium.models.fingerprint import hash_weights


def digest(module: nn.Module) -> str:
    found = hashlib.sha256()
    hash_weights(module, found)
    return found.hexdigest()


def test_equal_weights_agree_and_any_change_shows() -> None:
    torch.manual_seed(0)
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    assert digest(one) == digest(other)
    with torch.no_grad():
        other.bias[1] += 1e-6
    assert digest(one) != digest(other)
    assert digest(one) != digest(one.half())


def test_a_transposed_tensor_is_another() -> None:
    one, other = nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)
    other.weight.data = one.weight.data.reshape(2, 3)
    assert digest(one) != digest(other)
