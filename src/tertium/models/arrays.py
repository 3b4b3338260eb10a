"""Weights as numpy arrays: read from safetensors without torch."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load_file

from tertium.errors import TertiumError

__all__ = ["Arrays", "arrays_digest", "read_arrays"]

Arrays = dict[str, NDArray[Any]]


def read_arrays(file: Path) -> Arrays:
    """The arrays of a safetensors file by name; bfloat16, which numpy lacks, becomes float32."""
    try:
        try:
            return dict(load_file(file))
        except (TypeError, AttributeError):  # numpy has no such type
            return {name: _array(view) for name, view in deserialize(file.read_bytes())}  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError, ValueError) as error:
        raise TertiumError(f"{file} cannot be read ({error}). Fetch or copy it again.") from error


def _array(view: dict[str, Any]) -> NDArray[Any]:
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
    if view["dtype"] not in kinds:
        raise ValueError(f"{view['dtype']} is not a type of weights")
    found = np.frombuffer(view["data"], kinds[view["dtype"]]).reshape(view["shape"])
    if view["dtype"] != "BF16":
        return found
    return (found.astype(np.uint32) << 16).view(np.float32)


def arrays_digest(arrays: Mapping[str, NDArray[Any]], description: Any) -> str:
    """The sha256 of a description in plain values and of all weights, as for torch modules."""
    found = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
    for name, value in sorted(arrays.items()):
        found.update(f"{name} torch.{value.dtype} {value.shape}\n".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()
