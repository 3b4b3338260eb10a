"""Matrix products in 8-bit integers: fixed steps for inputs, steps per column for weights.

The steps of an input are found once, so that a text's vector does not depend on the texts beside
it in a batch, as it does where they are taken from the batch. The few channels of a transformer
with huge values are multiplied in float (after LLM.int8, Dettmers et al., 2022, here with the
channels fixed beforehand), and so are the most sensitive products, if asked for.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tertium.engines.runtimes import SINGLE_FILE, session
from tertium.hardware import architecture, instructions
from tertium.progress import track

__all__ = [
    "Form",
    "GraphWriter",
    "QuantPlan",
    "Range",
    "calibrate",
    "int8_plans",
    "plan_input",
    "products",
    "weight_levels",
    "write_int8",
]

Batch = Mapping[str, np.ndarray]
# ``integer``: ONNX Runtime's product of integers. ``pairs``: quantised and back again around a
# float product, which OpenVINO recognises.
Form = Literal["integer", "pairs"]

_MARGIN = 1.1  # beyond what calibration has seen
_SHARE = 0.01  # of the channels may be outliers
_GAIN = 2.5  # leaving them out must make the range this many times smaller to be worth it
_CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of each channel of a product's input."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]


@dataclass(frozen=True)
class QuantPlan:
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


def plan_input(seen: Range) -> QuantPlan:
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
    return QuantPlan(scale, round(-low / scale), outliers)


def _joined(one: Range, other: Range) -> Range:
    return Range(np.minimum(one.low, other.low), np.maximum(one.high, other.high))


@dataclass
class GraphWriter:
    """Rewrites the nodes of a graph.

    Attributes:
        model: the graph, which ``finish`` changes.
        form: how a product of integers is written.
        levels: largest integer of a weight.
        nodes: what is written so far.
        taken: outputs of nodes that a product has taken in.
    """

    model: Any
    form: Form
    levels: int
    nodes: list[Any] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._added: dict[str, Any] = {}
        self._users: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._outputs = {output.name for output in graph.output}

    def product(self, node: Any, plan: QuantPlan) -> None:
        """Write one product, with the bias that follows it and the outliers beside it."""
        x, target = node.input[0], node.output[0]
        matrix = self._array(node.input[1])
        weight = f"{x}/{node.input[1]}"  # the same matrix behind another input has other outliers
        self._quantise(x, plan)
        bias = self._bias(target)
        if bias is not None:
            target = bias.output[0]
            self.taken.add(target)
        summed = f"{target}_int8" if len(plan.outliers) else target
        self._weights(weight, matrix, plan)
        self._multiply(x, weight, None if bias is None else self._constant_of(bias), summed)
        if len(plan.outliers):
            self._constant(f"{weight}_outliers", matrix[plan.outliers])
            apart = f"{target}_outliers"
            self._node("MatMul", [f"{x}_outliers", f"{weight}_outliers"], apart)
            self._node("Add", [summed, apart], target)

    def finish(self) -> None:
        """Put the written nodes and constants into the model."""
        graph = self.model.graph
        used = {name for node in self.nodes for name in node.input}
        constants = [
            t for t in (*self._constants.values(), *self._added.values()) if t.name in used
        ]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(constants)
        if self.form == "integer":
            import onnx

            self.model.opset_import.append(onnx.helper.make_opsetid(_CONTRIB, 1))

    def _quantise(self, x: str, plan: QuantPlan) -> None:
        """The input in integers, once for all products that share it."""
        if f"{x}_scale" in self._added:
            return
        self._constant(f"{x}_scale", np.float32(plan.scale))
        self._constant(f"{x}_zero", np.uint8(plan.zero))
        steps = [f"{x}_scale", f"{x}_zero"]
        self._node("QuantizeLinear", [x, *steps], f"{x}_int8")
        if self.form == "pairs":
            self._node("DequantizeLinear", [f"{x}_int8", *steps], f"{x}_stepped")
        if len(plan.outliers):
            self._constant(f"{x}_channels", plan.outliers)
            self._node("Gather", [x, f"{x}_channels"], f"{x}_outliers", axis=-1)

    def _weights(self, weight: str, matrix: NDArray[np.float32], plan: QuantPlan) -> None:
        """The matrix in integers with a step per column; rows of outliers are 0."""
        if f"{weight}_steps" in self._added:
            return
        inside = matrix.copy()
        inside[plan.outliers] = 0
        steps = np.abs(inside).max(axis=0) / self.levels
        steps[steps == 0] = 1
        self._constant(f"{weight}_steps", steps.astype(np.float32))
        self._constant(f"{weight}_int8", np.rint(inside / steps).astype(np.int8))

    def _multiply(self, x: str, weight: str, bias: str | None, target: str) -> None:
        integers = [f"{x}_int8", f"{weight}_int8"]
        if self.form == "integer":
            steps = [f"{x}_scale", f"{weight}_steps", f"{x}_zero"]
            ends = [] if bias is None else ["", bias]
            self._node("MatMulIntegerToFloat", [*integers, *steps, *ends], target, domain=_CONTRIB)
            return
        if not any(f"{weight}_stepped" in node.output for node in self.nodes):
            steps = [f"{weight}_int8", f"{weight}_steps"]
            self._node("DequantizeLinear", steps, f"{weight}_stepped", axis=1)
        plain = target if bias is None else f"{target}_product"
        self._node("MatMul", [f"{x}_stepped", f"{weight}_stepped"], plain)
        if bias is not None:
            self._node("Add", [plain, bias], target)

    def _bias(self, product: str) -> Any | None:
        """The node that adds a constant vector to a product, and is the only one that reads it."""
        users = self._users.get(product, [])
        if len(users) != 1 or users[0].op_type != "Add" or product in self._outputs:
            return None
        constant = self._constant_of(users[0])
        return users[0] if constant and len(self._constants[constant].dims) == 1 else None

    def _constant_of(self, node: Any) -> str | None:
        return next((name for name in node.input if name in self._constants), None)

    def _array(self, name: str) -> NDArray[np.float32]:
        import onnx

        return np.asarray(onnx.numpy_helper.to_array(self._constants[name]))

    def _constant(self, name: str, value: Any) -> None:
        import onnx

        self._added[name] = onnx.numpy_helper.from_array(np.asarray(value), name)

    def _node(self, kind: str, inputs: list[str], output: str, **options: Any) -> None:
        import onnx

        node = onnx.helper.make_node(kind, inputs, [output], name=f"{output}_node", **options)
        self.nodes.append(node)


def weight_levels() -> int:
    """Largest integer of a weight: 127, or 64 where the processor's sums of two would overflow."""
    if architecture() not in ("x86_64", "AMD64", "i386", "i686"):
        return 127
    return 127 if {"avx512vnni", "avxvnni", "amxint8"} & instructions() else 64


def int8_plans(
    path: Path,
    batches: Sequence[Batch],
    *,
    keep_float: int,
    threads: int,
    progress: bool | None = None,
    before_measuring: Callable[[Mapping[str, QuantPlan]], object] = lambda plans: None,
) -> dict[str, QuantPlan]:
    """Plans for the inputs of all products of a float graph but those that stay in float.

    Args:
        path: the float graph.
        batches: what it is calibrated on.
        keep_float: this many inputs, those with the most sensitive products, have no plan.
        threads: of the runtime.
        progress: False for no progress on standard error.
        before_measuring: is given all plans before products run in integers here.
    """
    ranges = calibrate(path, batches, threads=threads)
    plans = {name: plan_input(seen) for name, seen in ranges.items()}
    if keep_float < 1:
        return plans
    before_measuring(plans)
    expected = _outputs(session(path, threads=threads), batches)
    harm = {}
    for name in track(plans, label="measuring layers", unit="layer", show=progress):
        alone = int8_model(path, {name: plans[name]}, form="integer", levels=weight_levels())
        found = _outputs(session(alone.SerializeToString(), threads=threads), batches)
        harm[name] = float(((found - expected) ** 2).sum())
    worst = sorted(harm, key=lambda name: -harm[name])[:keep_float]
    return {name: plan for name, plan in plans.items() if name not in worst}


def write_int8(source: Path, target: Path, plans: Mapping[str, QuantPlan], *, form: Form) -> None:
    """Write the graph in ``source`` with the products of the planned inputs in integers."""
    import onnx

    model = int8_model(source, plans, form=form, levels=weight_levels())
    onnx.save(model, str(target), save_as_external_data=model.ByteSize() > SINGLE_FILE)


def int8_model(source: Path, plans: Mapping[str, QuantPlan], *, form: Form, levels: int) -> Any:
    """The graph in ``source`` with the products of the planned inputs in integers."""
    import onnx

    model = onnx.load(str(source))
    writer = GraphWriter(model, form=form, levels=levels)
    planned = {
        node.output[0]: plans[name]
        for name, nodes in products(model).items()
        for node in nodes
        if name in plans
    }
    for node in model.graph.node:
        plan = planned.get(node.output[0])
        if plan is not None:
            writer.product(node, plan)
        elif node.output[0] not in writer.taken:
            writer.nodes.append(node)
    writer.finish()
    return model


def _outputs(runtime: Any, batches: Sequence[Batch]) -> NDArray[np.float32]:
    return np.concatenate([runtime.run(None, dict(batch))[0].ravel() for batch in batches])
