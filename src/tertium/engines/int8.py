"""An ONNX graph written anew, with matrix products in 8-bit integers."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tertium.engines.calibration import Plan

__all__ = ["Form", "GraphWriter"]

# ``integer``: ONNX Runtime's product of integers. ``pairs``: quantised and back again around a
# float product, which OpenVINO recognises.
Form = Literal["integer", "pairs"]

_CONTRIB = "com.microsoft"


@dataclass
class GraphWriter:
    """Writes the nodes of a graph anew.

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

    def product(self, node: Any, plan: Plan) -> None:
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

    def _quantise(self, x: str, plan: Plan) -> None:
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

    def _weights(self, weight: str, matrix: NDArray[np.float32], plan: Plan) -> None:
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
        """The node that adds a constant vector to a product, and alone reads it."""
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
