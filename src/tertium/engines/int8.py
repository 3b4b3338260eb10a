"""Matrix products in 8-bit integers: fixed steps for inputs, steps per column for weights.

The steps of an input are found once, so that a text's vector does not depend on the texts beside
it in a batch, as it does where they are taken from the batch. Channels of very different size
would make these steps too wide for most of them; so the large ones are scaled down, and the rows of
the matrix up (after SmoothQuant, Xiao et al., 2023, here with the exponent that has
the smallest error for each input). The most sensitive products stay in float, if asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tertium.engines.runtimes import SINGLE_FILE, session
from tertium.hardware import architecture, instructions
from tertium.progress import track

__all__ = [
    "Form",
    "QuantPlan",
    "Seen",
    "calibrate",
    "int8_plans",
    "plan_input",
    "products",
    "weight_levels",
    "without_sensitive",
    "write_int8",
]

Batch = Mapping[str, np.ndarray]
# ``integer``: ONNX Runtime's product of integers. ``pairs``: quantised and back again around a
# float product, which OpenVINO recognises.
Form = Literal["integer", "pairs"]

_MARGIN = 1.3  # beyond what calibration has seen
_EXPONENTS = (0.5, 0.65, 0.8, 1.0)  # of the inputs' size in a channel's scale; 1 minus it: weights'
_USUAL = 0.9  # quantile of the channels' sizes: only the largest are scaled down
_GAIN = 0.9  # of the plain error: scaling must be below to be worth its node
_ROWS = 32  # of every batch are kept to measure errors with
_CONTRIB = "com.microsoft"


@dataclass
class Seen:
    """What calibration has seen of a product's input.

    Attributes:
        low: smallest value of each channel.
        high: largest value.
        rows: some of the inputs.
    """

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    rows: list[NDArray[np.float32]]

    def add(self, rows: NDArray[np.float32]) -> None:
        """Take in the inputs of another batch."""
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        chosen = np.linspace(0, len(rows) - 1, min(len(rows), _ROWS)).astype(int)
        self.rows.append(rows[chosen])


@dataclass(frozen=True)
class QuantPlan:
    """How the input of one or several products becomes integers from 0 to 255.

    Attributes:
        step: width of a step.
        zero: the integer that stands for 0.
        scales: each channel is multiplied with its scale first, and its rows of the matrices are
            divided by it; None for none.
    """

    step: float
    zero: int
    scales: NDArray[np.float32] | None = None

    def stepped(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is left of scaled inputs."""
        integers = np.clip(np.rint(rows / self.step) + self.zero, 0, 255)
        return np.asarray((integers - self.zero) * self.step, np.float32)


def products(model: Any) -> dict[str, list[Any]]:
    """The nodes of an ONNX model that multiply with a constant matrix, by their common input."""
    matrices = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2}
    found: dict[str, list[Any]] = {}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in matrices:
            found.setdefault(node.input[0], []).append(node)
    return found


def calibrate(path: Path, batches: Iterable[Batch], *, threads: int) -> dict[str, Seen]:
    """What the float graph in ``path`` gives to its products over some batches."""
    import onnx

    model = onnx.load(str(path))
    names = list(products(model))
    for name in names:
        shown = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(shown)
    runtime = session(model.SerializeToString(), threads=threads)
    found: dict[str, Seen] = {}
    for batch in batches:
        for name, values in zip(names, runtime.run(names, dict(batch)), strict=True):
            rows = values.reshape(-1, values.shape[-1])
            found.setdefault(name, Seen(rows[0], rows[0], [])).add(rows)
    return found


def plan_input(seen: Seen, matrices: Sequence[NDArray[np.float32]], *, levels: int) -> QuantPlan:
    """Steps for an input of these products, with channels scaled where that pays.

    Args:
        seen: what calibration has seen of it.
        matrices: that it is multiplied with.
        levels: largest integer of a weight.

    >>> draw = np.random.default_rng(0)
    >>> even = draw.uniform(-1, 1, (64, 256)).astype(np.float32)
    >>> matrix = draw.standard_normal((256, 8)).astype(np.float32)
    >>> plan_input(Seen(even.min(0), even.max(0), [even]), [matrix], levels=127).scales is None
    True
    >>> even[:, 7] *= 50
    >>> scales = plan_input(Seen(even.min(0), even.max(0), [even]), [matrix], levels=127).scales
    >>> bool(scales[7] < 0.1 * scales[0])
    True
    """
    rows = np.concatenate(seen.rows)
    expected = [rows @ matrix for matrix in matrices]

    def error(plan: QuantPlan) -> float:
        scales = np.float32(1) if plan.scales is None else plan.scales
        stepped = plan.stepped(rows * scales)
        found = [stepped @ _stepped_weights(scaled(m, plan), levels) for m in matrices]
        return sum(
            _squares(f - e) / (_squares(e) or 1.0) for f, e in zip(found, expected, strict=True)
        )

    inputs = _sizes(np.maximum(np.abs(seen.low), np.abs(seen.high)))
    weights = _sizes(np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0))
    scalings = [weights ** (1 - exponent) / inputs**exponent for exponent in _EXPONENTS]
    plain, best = _plan(seen), min([_plan(seen, scales) for scales in scalings], key=error)
    return best if error(best) < _GAIN * error(plain) else plain


def _sizes(largest: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest values of channels, all but the few large ones alike: other texts have other values.

    >>> _sizes(np.array([0.1, 0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.3, 0.5, 0.5, 9.0])).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 9.0]
    """
    return np.maximum(largest, max(float(np.quantile(largest, _USUAL)), 1e-6))


def _plan(seen: Seen, scales: NDArray[np.float32] | None = None) -> QuantPlan:
    """Steps for all that was seen and a little more."""
    if scales is not None:
        scales = (scales / np.median(scales)).astype(np.float32)
    factors = np.float32(1) if scales is None else scales
    low = min(float((seen.low * factors).min()), 0.0) * _MARGIN
    high = max(float((seen.high * factors).max()), 0.0) * _MARGIN
    step = max((high - low) / 255, 1e-12)
    return QuantPlan(step, round(-low / step), scales)


def scaled(matrix: NDArray[np.float32], plan: QuantPlan) -> NDArray[np.float32]:
    """The matrix for scaled inputs."""
    return matrix if plan.scales is None else matrix / plan.scales[:, None]


def _weight_steps(matrix: NDArray[np.float32], levels: int) -> NDArray[np.float32]:
    steps = np.abs(matrix).max(axis=0) / levels
    steps[steps == 0] = 1
    return np.asarray(steps, np.float32)


def _stepped_weights(matrix: NDArray[np.float32], levels: int) -> NDArray[np.float32]:
    steps = _weight_steps(matrix, levels)
    return np.asarray(np.rint(matrix / steps) * steps, np.float32)


def _squares(values: NDArray[np.float32]) -> float:
    return float((values.astype(np.float64) ** 2).sum())


class _Rewriter:
    """Rewrites the products of a graph in integers.

    Args:
        model: the graph, which is changed in place.
        form: how a product of integers is written.
    """

    def __init__(self, model: Any, form: Form) -> None:
        import onnx

        self._onnx = onnx
        self._model = model
        self._form = form
        self._levels = weight_levels()
        self._nodes: list[Any] = []
        self._absorbed: set[str] = set()  # outputs of nodes that became part of a product
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._added: dict[str, Any] = {}
        self._users: dict[str, list[Any]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._outputs = {output.name for output in model.graph.output}

    def rewrite(self, plans: Mapping[str, QuantPlan]) -> None:
        """Write the products of the planned inputs in integers, and all other nodes as they are."""
        planned = {
            node.output[0]: plans[name]
            for name, nodes in products(self._model).items()
            for node in nodes
            if name in plans
        }
        for node in self._model.graph.node:
            plan = planned.get(node.output[0])
            if plan is not None:
                self._product(node, plan)
            elif node.output[0] not in self._absorbed:
                self._nodes.append(node)
        self._finish()

    def _product(self, node: Any, plan: QuantPlan) -> None:
        """Write one product, with the bias that follows it."""
        x, target = node.input[0], node.output[0]
        weight = f"{x}/{node.input[1]}"  # the same matrix behind another input has other scales
        self._quantise(x, plan)
        bias = self._bias(target)
        if bias is not None:
            target = bias.output[0]
            self._absorbed.add(target)
        self._weights(weight, scaled(self._array(node.input[1]), plan))
        self._multiply(x, weight, None if bias is None else self._constant_of(bias), target)

    def _finish(self) -> None:
        """Put the written nodes, and the constants that they use, into the model."""
        graph = self._model.graph
        used = {name for node in self._nodes for name in node.input}
        constants = [
            t for t in (*self._constants.values(), *self._added.values()) if t.name in used
        ]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(self._nodes)
        graph.initializer.extend(constants)
        if self._form == "integer":
            self._model.opset_import.append(self._onnx.helper.make_opsetid(_CONTRIB, 1))

    def _quantise(self, x: str, plan: QuantPlan) -> None:
        """The input in integers, once for all products that share it."""
        if f"{x}_scale" in self._added:
            return
        self._constant(f"{x}_scale", np.float32(plan.step))
        self._constant(f"{x}_zero", np.uint8(plan.zero))
        steps = [f"{x}_scale", f"{x}_zero"]
        even = x
        if plan.scales is not None:
            even = f"{x}_even"
            self._constant(f"{x}_scales", plan.scales)
            self._node("Mul", [x, f"{x}_scales"], even)
        self._node("QuantizeLinear", [even, *steps], f"{x}_int8")
        if self._form == "pairs":
            self._node("DequantizeLinear", [f"{x}_int8", *steps], f"{x}_stepped")

    def _weights(self, weight: str, matrix: NDArray[np.float32]) -> None:
        """The matrix in integers with a step per column, once for all products that share it."""
        if f"{weight}_steps" in self._added:
            return
        steps = _weight_steps(matrix, self._levels)
        self._constant(f"{weight}_steps", steps)
        self._constant(f"{weight}_int8", np.rint(matrix / steps).astype(np.int8))
        if self._form == "pairs":
            inputs = [f"{weight}_int8", f"{weight}_steps"]
            self._node("DequantizeLinear", inputs, f"{weight}_stepped", axis=1)

    def _multiply(self, x: str, weight: str, bias: str | None, target: str) -> None:
        integers = [f"{x}_int8", f"{weight}_int8"]
        if self._form == "integer":
            steps = [f"{x}_scale", f"{weight}_steps", f"{x}_zero"]
            ends = [] if bias is None else ["", bias]
            self._node("MatMulIntegerToFloat", [*integers, *steps, *ends], target, domain=_CONTRIB)
            return
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
        return np.asarray(self._onnx.numpy_helper.to_array(self._constants[name]))

    def _constant(self, name: str, value: Any) -> None:
        self._added[name] = self._onnx.numpy_helper.from_array(np.asarray(value), name)

    def _node(self, kind: str, inputs: list[str], output: str, **options: Any) -> None:
        node = self._onnx.helper.make_node(kind, inputs, [output], name=f"{output}_node", **options)
        self._nodes.append(node)


def weight_levels() -> int:
    """Largest integer of a weight: 127, or 64 where the processor's sums of two would overflow."""
    if architecture() not in ("x86_64", "AMD64", "i386", "i686"):
        return 127
    return 127 if {"avx512vnni", "avxvnni", "amxint8"} & instructions() else 64


def int8_plans(
    path: Path,
    batches: Sequence[Batch],
    *,
    threads: int,
    even: bool = True,
    progress: bool | None = None,
) -> dict[str, QuantPlan]:
    """Plans for the inputs of all products of a float graph.

    Args:
        path: the float graph.
        batches: what it is calibrated on.
        threads: of the runtime.
        even: scale channels of very different size.
        progress: False for no progress on standard error.
    """
    import onnx

    model = onnx.load(str(path))
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    levels = weight_levels()
    plans = {}
    seen = calibrate(path, batches, threads=threads)
    for name, nodes in track(products(model).items(), label="scaling", unit="layer", show=progress):
        matrices = [onnx.numpy_helper.to_array(constants[node.input[1]]) for node in nodes]
        plans[name] = plan_input(seen[name], matrices, levels=levels) if even else _plan(seen[name])
    return plans


def without_sensitive(
    path: Path,
    batches: Sequence[Batch],
    plans: Mapping[str, QuantPlan],
    *,
    count: int,
    threads: int,
    progress: bool | None = None,
) -> dict[str, QuantPlan]:
    """The plans without the ``count`` inputs whose products change the results most.

    Products run in integers here, in this process: check first that the processor can do it.
    """
    expected = _outputs(session(path, threads=threads), batches)
    harm = {}
    for name in track(plans, label="measuring layers", unit="layer", show=progress):
        alone = int8_model(path, {name: plans[name]}, form="integer")
        found = _outputs(session(alone.SerializeToString(), threads=threads), batches)
        harm[name] = float(((found - expected) ** 2).sum())
    worst = sorted(harm, key=lambda name: -harm[name])[:count]
    return {name: plan for name, plan in plans.items() if name not in worst}


def write_int8(source: Path, target: Path, plans: Mapping[str, QuantPlan], *, form: Form) -> None:
    """Write the graph in ``source`` with the products of the planned inputs in integers."""
    import onnx

    model = int8_model(source, plans, form=form)
    onnx.save(model, str(target), save_as_external_data=model.ByteSize() > SINGLE_FILE)


def int8_model(source: Path, plans: Mapping[str, QuantPlan], *, form: Form) -> Any:
    """The graph in ``source`` with the products of the planned inputs in integers."""
    import onnx

    model = onnx.load(str(source))
    _Rewriter(model, form).rewrite(plans)
    return model


def _outputs(runtime: Any, batches: Sequence[Batch]) -> NDArray[np.float32]:
    return np.concatenate([runtime.run(None, dict(batch))[0].ravel() for batch in batches])
