"""Which engine runs each part of a model: planned once, and applied wherever the model is loaded.

A plan can be saved. A bulk job does so, so that all its workers, on any machine and after a
resume, run the same export.
"""

import contextlib
import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tertium.engines import PartPlan, Plan, engine_name, require_engine
from tertium.engines.check import check_engine, open_engine
from tertium.engines.export import Export, cpu_threads, ensure, static_export
from tertium.engines.graphs import PartGraph, graphs_of
from tertium.engines.tuning import remembered
from tertium.errors import TertiumError, TertiumWarning
from tertium.hardware import fast_integers
from tertium.models.base import Model
from tertium.types import EngineName, Kind

__all__ = ["apply", "plan"]

_AS_STATIC = (EngineName.DEFAULT, EngineName.STATIC, EngineName.AUTO)  # for a static model


def plan(model: Model, engine: EngineName | str, *, folder: Path | None = None) -> Plan:
    """Choose the engine of every part of ``model``; missing exports are made now.

    Args:
        model: a model on the CPU, unless the engine is torch.
        engine: a name; ``default`` for ONNX Runtime if the model was read without torch, else
            torch; or ``auto`` for the fastest one measured on this machine, or else suggested by
            its instructions.
        folder: the model's own folder, which may contain exports.
    """
    name = engine_name(engine)
    if name is EngineName.TORCH:
        return ()
    if model.kind is Kind.STATIC and name in _AS_STATIC:
        return (PartPlan(engine=EngineName.STATIC),)  # as it is
    if name is EngineName.STATIC:
        return (_exported(name, static_export(model)),)
    if name is EngineName.AUTO:
        return _auto(model, folder)
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
    """``model`` with its planned engines: the same object, or for ``static`` a new one.

    Args:
        model: a model without engines.
        plan: the result of :func:`plan`, here or on another machine.
        folder: the model's own folder, which may contain exports.
        threads: threads of each engine (default: as planned, else one per core).
        or_torch: warn if an engine does not start in this process, and leave that part to torch.

    Raises:
        TertiumError: an export here is not the planned one.
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


def _auto(model: Model, folder: Path | None) -> Plan:
    """The fastest engine measured here, else the one the processor suggests, else torch.

    The one place that defines ``auto``. Engines are measured by ``tertium tune``, or during the
    first long job (:mod:`tertium.engines.settle`).
    """
    planned = []
    for graph in graphs_of(model):
        best = remembered(graph.fingerprint)
        if best is None:
            planned.append(_suggested(graph, folder))
        elif best.engine is EngineName.TORCH:
            planned.append(PartPlan(engine=EngineName.TORCH, token_budget=best.token_budget))
        else:
            chosen = PartPlan(engine=EngineName.TORCH)
            with _or_torch(graph, best.engine):
                export = ensure(graph, best.engine, folder=folder)
                check_engine(graph, best.engine, export.folder)
                budget, threads = best.token_budget, best.threads
                chosen = _exported(best.engine, export, token_budget=budget, threads=threads)
            planned.append(chosen)
    return tuple(planned)


def _suggested(graph: PartGraph, folder: Path | None) -> PartPlan:
    """8 bit if the processor multiplies integers fast and the export is accurate, else float."""
    if find_spec("onnxruntime") is None:
        return PartPlan(engine=EngineName.TORCH)
    if fast_integers():
        with contextlib.suppress(TertiumError):  # refused, or it does not run here
            export = ensure(graph, EngineName.ONNX_INT8, folder=folder)
            check_engine(graph, EngineName.ONNX_INT8, export.folder)
            return _exported(EngineName.ONNX_INT8, export)
    return _exported(EngineName.ONNX, ensure(graph, EngineName.ONNX, folder=folder))


@contextmanager
def _or_torch(graph: PartGraph, engine: EngineName, *, when: bool = True) -> Iterator[None]:
    """Warn instead of raising if ``engine`` is unavailable, since torch can run the part."""
    try:
        yield
    except TertiumError as error:
        if not when:
            raise
        warnings.warn(
            f"{graph.name} runs on torch, not {engine}: {error}", TertiumWarning, stacklevel=5
        )


def _static(model: Model, chosen: PartPlan) -> Model:
    from tertium.models.light_static import LightStatic

    export = static_export(model)
    _check_same(chosen, export, model.name)
    return LightStatic.load(export.folder, name=model.name)


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
        f"The export of {name} for {chosen.engine} is not the one that the job was started with "
        f"({made}; now {now}). Recreate that one with tertium export, or choose another folder; on "
        "a cluster, copy the same export to every machine."
    )
