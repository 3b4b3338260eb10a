"""How large the inputs of a graph's matrix products get, and how to cut them into 256 steps."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.engines.runtimes import session

__all__ = ["Plan", "Range", "calibrate", "plan_input", "products"]

Batch = Mapping[str, np.ndarray]

_MARGIN = 1.1  # beyond what calibration has seen
_SHARE = 0.01  # of the channels may be outliers
_GAIN = 2.5  # leaving them out must make the range so many times smaller, or it is not worth it


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of each channel of a product's input."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """How the input of one or several products becomes integers from 0 to 255.

    Attributes:
        scale: width of a step.
        zero: the integer that stands for 0.
        outliers: channels that are multiplied in float, because their values are so large that
            the steps of all others would be too wide; a transformer has a handful of them.
    """

    scale: float
    zero: int
    outliers: NDArray[np.int64]


def products(model: Any) -> dict[str, list[Any]]:
    """The nodes of an ONNX model that multiply with a constant matrix, by their common input."""
    matrices = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2}
    found: dict[str, list[Any]] = {}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in matrices:
            found.setdefault(node.input[0], []).append(node)
    return found


def calibrate(path: Path, batches: Iterable[Batch], *, threads: int) -> dict[str, Range]:
    """The ranges of all products' inputs over some batches, from the float graph in ``path``."""
    import onnx

    model = onnx.load(str(path))
    names = list(products(model))
    for name in names:
        shown = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(shown)
    runtime = session(model.SerializeToString(), threads=threads)
    ranges: dict[str, Range] = {}
    for batch in batches:
        for name, values in zip(names, runtime.run(names, dict(batch)), strict=True):
            rows = values.reshape(-1, values.shape[-1])
            seen = Range(rows.min(axis=0), rows.max(axis=0))
            ranges[name] = _joined(ranges[name], seen) if name in ranges else seen
    return ranges


def plan_input(seen: Range) -> Plan:
    """Steps for an input of this range, with outliers set apart where that pays.

    >>> low, high = np.full(200, -1.0), np.full(200, 1.0)
    >>> plan_input(Range(low, high)).outliers
    array([], dtype=int64)
    >>> high[7] = 30.0
    >>> plan_input(Range(low, high)).outliers
    array([7])
    """
    largest = np.maximum(np.abs(seen.low), np.abs(seen.high))
    limit = np.sort(largest)[-1 - math.ceil(_SHARE * len(largest))]  # of all but the largest ones
    pays = largest.max() >= _GAIN * limit
    outliers = np.flatnonzero(largest > limit) if pays else np.array([], np.int64)
    others = np.setdiff1d(np.arange(len(largest)), outliers)
    low = min(float(seen.low[others].min()), 0.0) * _MARGIN
    high = max(float(seen.high[others].max()), 0.0) * _MARGIN
    scale = max((high - low) / 255, 1e-12)
    return Plan(scale, round(-low / scale), outliers)


def _joined(one: Range, other: Range) -> Range:
    return Range(np.minimum(one.low, other.low), np.maximum(one.high, other.high))
