"""Engines that run a model: torch, an exported graph, its int8 form, or a static copy."""

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
    "LOADER",
    "EngineKind",
    "PartPlan",
    "Plan",
    "check_device",
    "check_export",
    "engine_name",
    "require_engine",
]

LOADER = "tertium.engines.loading:load"  # module:function that loads a model in a worker


@dataclass(frozen=True)
class EngineKind:
    """Properties of an engine.

    Attributes:
        summary: a short description.
        packages: packages of the extra ``fast`` that it needs.
        exact: whether it reproduces torch's vectors up to rounding.
    """

    summary: str
    packages: Sequence[str] = ()
    exact: bool = True


# ``default`` and ``auto`` are not listed: they resolve to one of these.
ENGINES: dict[EngineName, EngineKind] = {
    EngineName.TORCH: EngineKind("PyTorch, as the model was trained"),
    EngineName.ONNX: EngineKind("exported graph in ONNX Runtime", ("onnxruntime",)),
    EngineName.ONNX_INT8: EngineKind(
        "exported 8-bit graph in ONNX Runtime", ("onnxruntime",), exact=False
    ),
    EngineName.OPENVINO: EngineKind("exported graph in OpenVINO", ("openvino",)),
    EngineName.OPENVINO_INT8: EngineKind(
        "exported 8-bit graph in OpenVINO", ("openvino",), exact=False
    ),
    EngineName.STATIC: EngineKind("averaged token vectors", exact=False),
}


class PartPlan(Frozen):
    """The engine of one part of a model; see :mod:`tertium.engines.plan`.

    Attributes:
        engine: its name, never ``auto``.
        token_budget: tokens per batch, including padding; None for the model's default.
        export: one hash of all files of the export; None if there is none.
        settings: settings of the export.
        threads: the fastest number of threads on this machine, which is not saved.
    """

    engine: EngineName
    token_budget: int | None = None
    export: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    threads: int | None = Field(default=None, exclude=True)


Plan = tuple[PartPlan, ...]  # one per part; empty if torch runs all of them


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
    """The torch device to use with an engine: all engines but torch run on the CPU."""
    if engine_name(engine) in (EngineName.TORCH, EngineName.DEFAULT):
        return device
    if device not in (None, "cpu"):
        raise TertiumError(f"The engine {engine} runs on the CPU, not on {device}: use torch.")
    return "cpu"


def require_engine(name: EngineName | str) -> None:
    """Raise unless the engine exists and its packages are installed."""
    engine = engine_name(name)
    if engine in ENGINES:
        require("fast", purpose=f"The engine {engine}", packages=ENGINES[engine].packages)


def check_export(
    engine: EngineName | str,
    *,
    output: str | os.PathLike[str] | None = None,
    keep_float: int | None = None,
) -> None:
    """Raise unless a model can be exported with these arguments of ``export``."""
    name = engine_name(engine)
    if name not in ENGINES or name is EngineName.TORCH:
        names = ", ".join(known for known in ENGINES if known is not EngineName.TORCH)
        raise TertiumError(f"There is nothing to export for {name}. Choose one of {names}.")
    if keep_float is not None and (ENGINES[name].exact or name is EngineName.STATIC):
        raise TertiumError(f"keep_float applies only to int8 engines, not to {name}.")
    if output is not None:
        check_new_folder(Path(output))
