"""Which engine runs each part of a model: planned once, and applied wherever the model is loaded.

A plan can be written down. A bulk job keeps it, so that all its workers, on this machine or on
others, and those that resume it run the same export.
"""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tertium.engines import PartPlan, Plan, engine_name, require_engine
from tertium.engines.check import check_engine, open_engine
from tertium.engines.export import Export, cpu_threads, ensure, static_export
from tertium.engines.graphs import PartGraph, graphs_of
from tertium.engines.tuning import remembered
from tertium.errors import TertiumError, TertiumWarning
from tertium.models.base import Model
from tertium.types import EngineName, Kind

__all__ = ["apply", "plan"]


def plan(model: Model, engine: EngineName | str, *, folder: Path | None = None) -> Plan:
    """Decide what runs every part of ``model``; what has no export yet is exported now.

    Args:
        model: as torch runs it, on the processor unless that is to stay so.
        engine: a name, ``default`` for ONNX Runtime where the model was read without torch and
            torch else, or ``auto`` for what ``tertium tune`` found best on this machine, and torch
            where that does not run.
        folder: the model's own, which may hold exports.
    """
    name = engine_name(engine)
    if name is EngineName.TORCH:
        return ()
    if model.kind is Kind.STATIC and name in (EngineName.STATIC, EngineName.AUTO):
        return (PartPlan(engine=EngineName.STATIC),)  # as it is
    if name is EngineName.STATIC:
        return (_exported(name, static_export(model)),)
    if name is EngineName.AUTO:
        return _tuned(model, folder)
    if name is EngineName.DEFAULT:
        if not any(part.needs_engine for part in model.parts):
            return ()
        name = EngineName.ONNX
    require_engine(name)
    return tuple(_exported(name, ensure(graph, name, folder=folder)) for graph in graphs_of(model))


def apply(
    model: Model,
    plan: Plan,
    *,
    folder: Path | None = None,
    threads: int | None = None,
    or_torch: bool = False,
) -> Model:
    """``model`` run as planned: the same object, or for ``static`` another one.

    Args:
        model: as torch runs it.
        plan: what :func:`plan` gave, here or on another machine.
        folder: the model's own, which may hold exports.
        threads: of each engine (default: as planned, else as many as torch has).
        or_torch: warn where an engine does not start in this process, and leave that part to torch.

    Raises:
        TertiumError: an export that is found here is another one.
    """
    if not plan:
        return model
    if plan[0].engine is EngineName.STATIC:
        return model if plan[0].export is None else _static(model, plan[0])
    for graph, chosen in zip(graphs_of(model), plan, strict=True):
        if chosen.engine is EngineName.TORCH:
            graph.use(None, token_budget=chosen.token_budget)
            continue
        with _or_torch(graph, chosen.engine, when=or_torch and not graph.part.needs_engine):
            export = ensure(graph, chosen.engine, folder=folder)
            _check_same(chosen, export, model.name)
            count = cpu_threads(chosen.threads if threads is None else threads)
            running = open_engine(graph, chosen.engine, export.folder, threads=count)
            graph.use(running, token_budget=chosen.token_budget)
    return model


def _tuned(model: Model, folder: Path | None) -> Plan:
    """What was measured to be fastest here; torch where nothing was, or where it does not run."""
    found = [(graph, remembered(graph.fingerprint)) for graph in graphs_of(model)]
    untuned = [graph for graph, best in found if best is None]
    if untuned:
        names = " and ".join(graph.name for graph in untuned)
        warnings.warn(
            f"Nothing is known about the fastest engine for {names} on this machine: "
            f"{_untuned(untuned[0])} runs it. Measure once: tertium tune --model {model.name}",
            TertiumWarning,
            stacklevel=4,
        )
    planned = []
    for graph, best in found:
        chosen = PartPlan(engine=EngineName.TORCH)
        if best is None and _untuned(graph) is EngineName.ONNX:
            chosen = _exported(EngineName.ONNX, ensure(graph, EngineName.ONNX, folder=folder))
        elif best is not None and best.engine is EngineName.TORCH:
            chosen = PartPlan(engine=EngineName.TORCH, token_budget=best.token_budget)
        elif best is not None:
            with _or_torch(graph, best.engine):
                export = ensure(graph, best.engine, folder=folder)
                check_engine(graph, best.engine, export.folder)
                budget, threads = best.token_budget, best.threads
                chosen = _exported(best.engine, export, token_budget=budget, threads=threads)
        planned.append(chosen)
    return tuple(planned)


def _untuned(graph: PartGraph) -> EngineName:
    """What runs a part of which nothing was measured."""
    return EngineName.ONNX if graph.part.needs_engine else EngineName.TORCH


@contextmanager
def _or_torch(graph: PartGraph, engine: EngineName, *, when: bool = True) -> Iterator[None]:
    """Warn instead of raising where ``engine`` cannot be had: torch still runs the part."""
    try:
        yield
    except TertiumError as error:
        if not when:
            raise
        warnings.warn(
            f"torch runs {graph.name}, not {engine}: {error}", TertiumWarning, stacklevel=5
        )


def _static(model: Model, chosen: PartPlan) -> Model:
    from tertium.models.static import StaticEncoder

    export = static_export(model)
    _check_same(chosen, export, model.name)
    return StaticEncoder.load(export.folder, name=model.name)


def _exported(engine: EngineName, export: Export, **more: Any) -> PartPlan:
    settings = export.record.settings
    return PartPlan(engine=engine, export=_hash(export), settings=settings, **more)


def _hash(export: Export) -> str:
    files = sorted(export.record.files.items())
    lines = (f"{name}\0{mark.sha256}\n" for name, mark in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _check_same(chosen: PartPlan, export: Export, name: str) -> None:
    if _hash(export) == chosen.export:
        return
    made, now = (
        ", ".join(f"{key} {value}" for key, value in settings.items()) or "the same settings"
        for settings in (chosen.settings, export.record.settings)
    )
    raise TertiumError(
        f"The export of {name} for {chosen.engine} is not the one that the job was begun with "
        f"({made}; now {now}). Make that one again with tertium export, or name another folder; "
        "on a cluster, put the same export on every machine."
    )
