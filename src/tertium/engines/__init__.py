"""What runs a model: torch, an exported graph, its int8 form, or a static copy."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from tertium.errors import TertiumError, require, unknown_name
from tertium.files import check_new_folder
from tertium.records.record import Frozen
from tertium.types import EngineName

__all__ = [
    "ENGINES",
    "EngineKind",
    "PartPlan",
    "Plan",
    "check_device",
    "check_export",
    "engine_name",
    "require_engine",
]


@dataclass(frozen=True)
class EngineKind:
    """What there is to know about an engine before it is used.

    Attributes:
        summary: what it is.
        packages: those of the extra ``fast`` that run it.
        exact: whether it gives torch's vectors but for rounding.
    """

    summary: str
    packages: Sequence[str] = ()
    exact: bool = True


# ``default`` and ``auto`` are not among them: they stand for one of these.
ENGINES: dict[EngineName, EngineKind] = {
    EngineName.TORCH: EngineKind("torch, as the model was trained"),
    EngineName.ONNX: EngineKind("its graph in ONNX Runtime", ("onnxruntime",)),
    EngineName.ONNX_INT8: EngineKind(
        "its graph in 8-bit integers in ONNX Runtime", ("onnxruntime",), exact=False
    ),
    EngineName.OPENVINO: EngineKind("its graph in OpenVINO", ("openvino",)),
    EngineName.OPENVINO_INT8: EngineKind(
        "its graph in 8-bit integers in OpenVINO", ("openvino",), exact=False
    ),
    EngineName.STATIC: EngineKind("vectors of single tokens, averaged", exact=False),
}


class PartPlan(Frozen):
    """What runs one part of a model; see :mod:`tertium.engines.plan`.

    Attributes:
        engine: its name, never ``auto``.
        token_budget: tokens per batch, padding included; None leaves it to the model.
        export: one hash of all files of the export; None where there is none.
        settings: how the export was made.
        threads: what was measured to be best on this machine, which is not written down.
    """

    engine: EngineName
    token_budget: int | None = None
    export: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    threads: int | None = Field(default=None, exclude=True)


Plan = tuple[PartPlan, ...]  # of each part in turn; empty: torch runs all of them


def engine_name(name: EngineName | str) -> EngineName:
    """The engine of this name.

    >>> engine_name("onnx")
    <EngineName.ONNX: 'onnx'>
    """
    try:
        return EngineName(name)
    except ValueError:
        raise unknown_name("engine", str(name), [str(e) for e in EngineName]) from None


def check_device(engine: EngineName | str, device: str | None) -> str | None:
    """The torch device beside an engine: all engines but torch run on the processor."""
    if engine_name(engine) in (EngineName.TORCH, EngineName.DEFAULT):
        return device
    if device not in (None, "cpu"):
        raise TertiumError(
            f"The engine {engine} runs on the processor, not on {device}: use torch."
        )
    return "cpu"


def require_engine(name: EngineName | str) -> None:
    """Raise unless there is such an engine, and its packages are installed."""
    engine = engine_name(name)
    if engine in ENGINES:
        require("fast", purpose=f"The engine {engine}", packages=ENGINES[engine].packages)


def check_export(
    engine: EngineName | str,
    *,
    output: str | os.PathLike[str] | None = None,
    keep_float: int | None = None,
) -> None:
    """Raise unless a model can be exported so; arguments as of ``export``."""
    name = engine_name(engine)
    if name not in ENGINES or name is EngineName.TORCH:
        names = ", ".join(known for known in ENGINES if known is not EngineName.TORCH)
        raise TertiumError(f"There is nothing to export for {name}. Name one of {names}.")
    if keep_float is not None and (ENGINES[name].exact or name is EngineName.STATIC):
        raise TertiumError(f"Only int8 leaves layers in float; {name} has no use for keep_float.")
    if output is not None:
        check_new_folder(Path(output))
