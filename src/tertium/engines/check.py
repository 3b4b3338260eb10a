"""The only way to open an engine: after it has run the same graph in a child process.

``load``, ``tune``, ``export``, bulk jobs and the server all open engines here.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tertium.engines import ENGINES
from tertium.engines.graphs import PartGraph
from tertium.engines.runtimes import GRAPH, RUNTIMES
from tertium.errors import TertiumError, require
from tertium.files import remembered_sha256
from tertium.hardware import instructions
from tertium.probe import (
    BELOW_AMX,
    UNKNOWN,
    ChildError,
    Outcome,
    cap_runtime,
    probe,
    set_cap,
    state,
)
from tertium.types import Engine, EngineName

__all__ = ["check_engine", "engine_states", "open_engine"]

FIRST_RUN = Path(__file__).with_name("runtimes.py")


def open_engine(graph: PartGraph, engine: EngineName, folder: Path, *, threads: int) -> Engine:
    """The engine that runs the graph in ``folder``, an export of ``graph``.

    Raises:
        UnusableError: it does not run on this processor, or not in this process.
    """
    outcome = check_engine(graph, engine, folder)
    (runtime,) = ENGINES[engine].packages
    if runtime == "openvino" and ENGINES[engine].exact and _amx_unknown():
        set_cap(BELOW_AMX)  # floats do not use AMX, and integers may need the cap later
    cap_runtime(outcome)
    return RUNTIMES[runtime](str(engine), folder / GRAPH, threads=threads)


def check_engine(graph: PartGraph, engine: EngineName, folder: Path) -> Outcome:
    """Whether ``engine`` runs the graph in ``folder`` on this processor; tested now if not known.

    Raises:
        UnusableError: it does not run.
    """
    packages = ENGINES[engine].packages
    require("fast", purpose=f"The engine {engine}", packages=packages)
    (runtime,) = packages

    def prepare(place: Path) -> None:
        for number, batch in enumerate(graph.samples()):
            np.savez(place / f"{number}.npz", **batch)  # type: ignore[arg-type]

    try:
        outcome = probe(
            str(engine),
            graph=remembered_sha256(folder / GRAPH),
            versions={runtime: version(runtime)},
            command=lambda place: [
                *(sys.executable, "-P", str(FIRST_RUN)),
                *(runtime, str(folder / GRAPH), str(place)),
            ],
            prepare=prepare,
        )
    except ChildError as error:
        raise TertiumError(
            f"The export of {graph.name} for {engine} does not run: {str(error).rstrip('.')}. "
            "Use torch."
        ) from error
    outcome.check(remedy=f"use {_instead(engine)}")
    return outcome


def engine_states() -> dict[str, str]:
    """What is known on this machine about each engine that runs a graph."""
    return {str(engine): _state(engine) for engine, kind in ENGINES.items() if kind.packages}


def _amx_unknown() -> bool:
    """Whether the processor reports AMX, and int8 has not been tested yet."""
    return "amxint8" in instructions() and _state(EngineName.OPENVINO_INT8) == UNKNOWN


def _state(engine: EngineName) -> str:
    packages = ENGINES[engine].packages
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        return f"missing {', '.join(missing)}"
    return state(engine, {package: version(package) for package in packages})


def _instead(engine: EngineName) -> EngineName:
    """The most similar engine that is not known to be unusable."""
    others = [EngineName.ONNX] if ENGINES[engine].exact else [EngineName.ONNX_INT8, EngineName.ONNX]
    for other in others:
        if other is not engine and not _state(other).startswith(("missing", "does not run")):
            return other
    return EngineName.TORCH
