"""Matrix products in 8-bit integers: fixed steps for inputs, steps per column for weights.

The steps of an input are found once, so that a text's vector does not depend on the texts beside
it in a batch, as it does where they are taken from the batch. The few channels of a transformer
with huge values are multiplied in float (after LLM.int8, Dettmers et al., 2022, here with the
channels fixed beforehand), and so are the products that hurt most, if asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.engines.calibration import Batch, Plan, calibrate, plan_input, products
from tertium.engines.int8 import Form, GraphWriter
from tertium.engines.runtimes import session
from tertium.hardware import architecture, instructions
from tertium.progress import track

__all__ = ["int8_plans", "weight_levels", "write_int8"]

_SINGLE_FILE = 1_900_000_000


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
    before_measuring: Callable[[Mapping[str, Plan]], object] = lambda plans: None,
) -> dict[str, Plan]:
    """Plans for the inputs of all products of a float graph but those that stay in float.

    Args:
        path: the float graph.
        batches: what it is calibrated on.
        keep_float: so many inputs, those whose products hurt most, have no plan.
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


def write_int8(source: Path, target: Path, plans: Mapping[str, Plan], *, form: Form) -> None:
    """Write the graph in ``source`` with the products of the planned inputs in integers."""
    import onnx

    model = int8_model(source, plans, form=form, levels=weight_levels())
    onnx.save(model, str(target), save_as_external_data=model.ByteSize() > _SINGLE_FILE)


def int8_model(source: Path, plans: Mapping[str, Plan], *, form: Form, levels: int) -> Any:
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
