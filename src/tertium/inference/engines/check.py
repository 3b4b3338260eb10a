"""Engines that run on this processor: the only way to open one.

What opens an engine, for ``load``, ``tune``, ``export``, bulk jobs or the server, does so here,
after the engine has run the same graph in a child process.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tertium.errors import TertiumError, require
from tertium.files import sha256
from tertium.inference.engines import ENGINES
from tertium.inference.engines.parts import Part
from tertium.inference.engines.runtimes import GRAPH, RUNTIMES
from tertium.probe import VARIABLE, ChildError, Outcome, cap_runtime, outcomes, probe
from tertium.types import Engine, EngineName

__all__ = ["check_engine", "engine_states", "open_engine"]

FIRST_RUN = Path(__file__).with_name("first_run.py")

# What else to use, the most like it first.
_INSTEAD = (EngineName.ONNX_INT8, EngineName.ONNX, EngineName.TORCH)


def open_engine(part: Part, engine: EngineName, folder: Path, *, threads: int) -> Engine:
    """The engine that runs the graph in ``folder``, which is one of ``part``.

    Raises:
        TertiumError: it does not run on this processor, or not in this process.
    """
    cap_runtime(check_engine(part, engine, folder))
    (runtime,) = ENGINES[engine].packages
    return RUNTIMES[runtime](str(engine), folder / GRAPH, threads=threads)


def check_engine(part: Part, engine: EngineName, folder: Path) -> Outcome:
    """How ``engine`` runs the graph in ``folder`` on this processor; tried now if not known.

    Raises:
        TertiumError: it does not.
    """
    packages = ENGINES[engine].packages
    require("fast", purpose=f"The engine {engine}", packages=packages)
    (runtime,) = packages

    def prepare(place: Path) -> None:
        for number, batch in enumerate(part.samples()):
            np.savez(place / f"{number}.npz", **batch)  # type: ignore[arg-type]

    try:
        outcome = probe(
            str(engine),
            graph=sha256(folder / GRAPH),
            versions={runtime: version(runtime)},
            command=lambda place: [
                *(sys.executable, "-P", str(FIRST_RUN)),
                *(runtime, str(folder / GRAPH), str(place)),
            ],
            prepare=prepare,
        )
    except ChildError as error:
        raise TertiumError(
            f"The export of {part.name} for {engine} does not run: {str(error).rstrip('.')}. "
            "Use torch."
        ) from error
    if not outcome.runs:
        raise TertiumError(_sentence(engine, outcome))
    return outcome


def engine_states() -> dict[str, str]:
    """What is known here about each engine with a graph: the worst of all models that it ran."""
    known = outcomes()
    states = {}
    for engine, kind in ENGINES.items():
        if not kind.packages:
            continue
        missing = [package for package in kind.packages if find_spec(package) is None]
        if missing:
            states[str(engine)] = f"missing {', '.join(missing)}"
            continue
        versions = {package: version(package) for package in kind.packages}
        mine = [o for o in known if o.subject == engine and o.versions == versions]
        mine.sort(key=lambda outcome: (outcome.runs, outcome.cap is None))
        states[str(engine)] = str(mine[0]) if mine else "not tried yet"
    return states


def _sentence(engine: EngineName, outcome: Outcome) -> str:
    setting = f" with {VARIABLE}={outcome.setting}" if outcome.setting else ""
    states = engine_states()
    instead = next(
        other
        for other in _INSTEAD
        if other is not engine
        and not (ENGINES[engine].exact and not ENGINES[other].exact)
        and not states.get(other, "").startswith(("missing", "does not run"))
    )
    return f"{engine} does not run on this processor{setting} ({outcome.reason}); use {instead}."
