"""Products in integers, against the same in plain numpy."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tertium.engines import int8
from tertium.engines.check import open_engine
from tertium.engines.int8 import (
    QuantPlan,
    Seen,
    calibrate,
    int8_model,
    int8_plans,
    plan_input,
    weight_levels,
    without_sensitive,
    write_int8,
)
from tertium.engines.runtimes import GRAPH, session
from tertium.types import EngineName
from tests.engines.models import runs_here

onnx = pytest.importorskip("onnx", reason="the extra 'fast' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'fast' is not installed")

WIDTH, OUT = 200, 12


def toy(path: Path, *, huge: int | None = 7) -> dict[str, np.ndarray]:
    """x·A + bias and x·B, added up; one channel of x may be huge."""
    draw = np.random.default_rng(0)
    weights = {
        "A": draw.standard_normal((WIDTH, OUT)).astype(np.float32),
        "B": draw.standard_normal((WIDTH, OUT)).astype(np.float32),
        "bias": draw.standard_normal(OUT).astype(np.float32),
        "sizes": np.ones(WIDTH, np.float32),
    }
    if huge is not None:
        weights["sizes"][huge] = 40
    make = onnx.helper.make_node
    graph = onnx.helper.make_graph(
        [
            make("Mul", ["input", "sizes"], ["x"]),
            make("MatMul", ["x", "A"], ["first"]),
            make("Add", ["first", "bias"], ["biased"]),
            make("MatMul", ["x", "B"], ["second"]),
            make("Add", ["biased", "second"], ["result"]),
        ],
        "toy",
        [onnx.helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["n", WIDTH])],
        [onnx.helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, ["n", OUT])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [onnx.helper.make_opsetid("", 20)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), str(path))
    return weights


def batches(count: int = 5) -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(1)
    return [{"input": draw.uniform(-1, 1, (9, WIDTH)).astype(np.float32)} for _ in range(count)]


def test_ranges_are_those_of_each_channel(tmp_path: Path) -> None:
    toy(tmp_path / "toy.onnx")
    (seen,) = calibrate(tmp_path / "toy.onnx", batches(), threads=1).values()
    rows = np.concatenate([batch["input"] for batch in batches()])
    rows[:, 7] *= 40
    np.testing.assert_allclose(seen.low, rows.min(axis=0), rtol=1e-6)
    np.testing.assert_allclose(seen.high, rows.max(axis=0), rtol=1e-6)


def steps_of(low: float, high: float) -> QuantPlan:
    rows = np.tile(np.linspace(low, high, 9, dtype=np.float32)[:, None], 50)
    return plan_input(Seen(rows[0], rows[-1], [rows]), [np.eye(50, dtype=np.float32)], levels=127)


def test_steps_cover_the_range_and_hold_zero() -> None:
    plan = steps_of(-0.2, 3.0)
    low, high = -plan.zero * plan.step, (255 - plan.zero) * plan.step
    assert low <= -0.2 and high >= 3.0 and high - low <= 5
    assert steps_of(1.0, 3.0).zero == 0
    assert steps_of(0.0, 0.0).step > 0


@pytest.mark.parametrize("form", ["integer", "pairs"])
@pytest.mark.parametrize("huge", [None, 7])
def test_products_are_those_of_the_integers(form: str, huge: int | None, tmp_path: Path) -> None:
    path = tmp_path / "toy.onnx"
    weights = toy(path, huge=huge)
    plans = int8_plans(path, batches(), threads=1)
    (plan,) = plans.values()
    assert (plan.scales is None) == (huge is None)
    assert huge is None or plan.scales[huge] < 0.5 * np.median(plan.scales)
    write_int8(path, tmp_path / "int8.onnx", plans, form=form)  # type: ignore[arg-type]
    batch = batches()[0]
    if form == "integer":
        found = session(tmp_path / "int8.onnx", threads=1).run(None, batch)[0]
    else:
        pytest.importorskip("openvino", reason="the extra 'fast' is not installed")
        (tmp_path / "int8.onnx").rename(tmp_path / GRAPH)
        graph = SimpleNamespace(name="toy", samples=lambda: [batch])
        with runs_here():
            engine = open_engine(graph, EngineName.OPENVINO_INT8, tmp_path, threads=1)  # type: ignore[arg-type]
        found = engine.run(batch)
    expected = by_hand(batch["input"] * weights["sizes"], weights, plan)
    np.testing.assert_allclose(found, expected, atol=0.02 if form == "pairs" else 1e-3)


def by_hand(x: np.ndarray, weights: dict[str, np.ndarray], plan: QuantPlan) -> np.ndarray:
    """Rounded and multiplied by the book, the channels scaled."""
    scales = np.ones(WIDTH) if plan.scales is None else plan.scales
    steps = np.clip(np.rint(x * scales / plan.step) + plan.zero, 0, 255) - plan.zero
    total = np.tile(weights["bias"], (len(x), 1)).astype(np.float64)
    for name in ("A", "B"):
        inside = weights[name] / scales[:, None]
        widths = np.abs(inside).max(axis=0) / weight_levels()
        total += (steps @ np.rint(inside / widths)) * widths * plan.step
    return total


def test_scaled_channels_are_worth_it(tmp_path: Path) -> None:
    path = tmp_path / "toy.onnx"
    toy(path)
    ((name, seen),) = calibrate(path, batches(), threads=1).items()
    weights = toy(path)
    good = plan_input(seen, [weights["A"], weights["B"]], levels=weight_levels())
    span = float(seen.high.max() - seen.low.min())
    coarse = QuantPlan(span / 255, round(-float(seen.low.min()) / span * 255))
    batch = batches()[0]
    exact = session(path, threads=1).run(None, batch)[0]
    errors = []
    for plan in (good, coarse):
        model = int8_model(path, {name: plan}, form="integer")
        found = session(model.SerializeToString(), threads=1).run(None, batch)[0]
        errors.append(np.abs(found - exact).mean())
    assert 2 * errors[0] < errors[1]


def test_what_hurts_most_stays_in_float(tmp_path: Path) -> None:
    """Two products in a row; the first has an input that steps cannot express."""
    draw = np.random.default_rng(0)
    first, second = (draw.standard_normal((WIDTH, WIDTH)).astype(np.float32) for _ in range(2))
    make = onnx.helper.make_node
    sizes = 2.0 ** np.linspace(-12, 12, WIDTH)  # no channel sticks out, and most drown
    inputs = onnx.helper.make_tensor_value_info("input", onnx.TensorProto.FLOAT, ["n", WIDTH])
    result = onnx.helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, ["n", WIDTH])
    values = {"first": first, "second": second, "sizes": sizes.astype(np.float32)}
    values["shrink"] = (1 / sizes).astype(np.float32)[:, None] * first
    graph = onnx.helper.make_graph(
        [
            make("Mul", ["input", "sizes"], ["x"]),
            make("MatMul", ["x", "shrink"], ["y"]),
            make("MatMul", ["y", "second"], ["result"]),
        ],
        "toy",
        [inputs],
        [result],
        [onnx.numpy_helper.from_array(v, n) for n, v in values.items() if n != "first"],
    )
    opset = [onnx.helper.make_opsetid("", 20)]
    path = tmp_path / "toy.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), str(path))
    plans = int8_plans(path, batches(), threads=1)
    assert set(plans) == {"x", "y"}
    assert set(without_sensitive(path, batches(), plans, count=1, threads=1)) == {"y"}
    assert set(without_sensitive(path, batches(), plans, count=5, threads=1)) == set()


@pytest.mark.parametrize(
    ("architecture", "able", "levels"),
    [
        ("x86_64", {"avx2"}, 64),
        ("AMD64", set(), 64),
        ("x86_64", {"avx512vnni"}, 127),
        ("x86_64", {"avxvnni"}, 127),
        ("aarch64", set(), 127),
    ],
)
def test_weights_leave_room_where_sums_would_overflow(
    architecture: str, able: set[str], levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8, "architecture", lambda: architecture)
    monkeypatch.setattr(int8, "instructions", lambda: able)
    assert weight_levels() == levels
