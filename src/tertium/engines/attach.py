"""Give a loaded model the engine that runs it."""

from pathlib import Path

from tertium.engines import engine_name, require_engine
from tertium.engines.build import Export, cpu_threads, ensure, kept
from tertium.engines.check import open_engine
from tertium.engines.choice import or_torch, tuned_parts
from tertium.engines.parts import Part, parts_of
from tertium.engines.records import Record, write_record
from tertium.engines.static import agreement, distil_static
from tertium.errors import TertiumError
from tertium.models import Encoder, Model, StaticEncoder
from tertium.types import EngineName, Kind

__all__ = ["static_export", "with_engine"]


def with_engine(
    model: Model,
    engine: EngineName | str,
    *,
    threads: int | None = None,
    folder: Path | None = None,
) -> Model:
    """``model`` run by ``engine``: the same object, or for ``static`` another one.

    Args:
        model: a loaded model, on the processor.
        engine: a member of ``EngineName``.
        threads: of the engine (default: as many as torch has).
        folder: the model's own, which may hold exports.
    """
    name = engine_name(engine)
    if name is EngineName.STATIC:
        return _static(model)
    if name is EngineName.AUTO:
        return _by_tuning(model, threads=threads, folder=folder)
    if name is not EngineName.TORCH:
        require_engine(name)
        for part in parts_of(model):
            _use(part, name, threads=threads, folder=folder)
    return model


def static_export(model: Model) -> Export:
    """The static copy of an encoder, distilled now if the cache has none."""
    if not isinstance(model, Encoder) or not model.parts:
        raise TertiumError(
            f"{model.name} cannot be made static: that takes a single encoder with a transformer. "
            "Name one, or distil the model into one with tertium distil."
        )
    fingerprint = model.fingerprint

    def make(folder: Path) -> Record:
        static = distil_static(model)
        static.save(folder)
        settings = {"dimensions": static.dimension, "agreement": agreement(static, model)}
        return write_record(
            folder, engine=EngineName.STATIC, fingerprint=fingerprint, settings=settings
        )

    return kept(fingerprint, EngineName.STATIC, make)


def _static(model: Model) -> Model:
    if model.kind is Kind.STATIC:
        return model
    return StaticEncoder.load(static_export(model).folder, name=model.name)


def _by_tuning(model: Model, *, threads: int | None, folder: Path | None) -> Model:
    if model.kind is Kind.STATIC:
        return model
    for part, best in tuned_parts(model):
        if best is None:
            continue
        if best.engine is EngineName.TORCH:
            part.use(None, token_budget=best.token_budget)
            continue
        count = best.threads if threads is None else threads
        with or_torch(part, best.engine):
            _use(part, best.engine, threads=count, folder=folder, budget=best.token_budget)
    return model


def _use(
    part: Part,
    engine: EngineName,
    *,
    threads: int | None,
    folder: Path | None,
    budget: int | None = None,
) -> None:
    export = ensure(part, engine, folder=folder, threads=threads)
    running = open_engine(part, engine, export.folder, threads=cpu_threads(threads))
    part.use(running, token_budget=budget)
