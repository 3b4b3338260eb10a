"""Which engine runs a job: settled when it begins, written down, and the same for every worker."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tertium.engines.attach import static_export, with_engine
from tertium.engines.build import Export, ensure
from tertium.engines.check import check_engine, open_engine
from tertium.engines.choice import or_torch, tuned_parts
from tertium.engines.parts import parts_of
from tertium.errors import TertiumError
from tertium.models.base import Model
from tertium.types import EngineName, Kind

__all__ = ["Chosen", "run_by", "settle"]


class Chosen(BaseModel):
    """What runs one part of a model.

    Attributes:
        engine: its name, never ``auto``.
        token_budget: tokens per batch, padding included; None leaves it to the model.
        export: one hash of all files of the export; None where there is none.
        settings: how the export was made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: EngineName
    token_budget: int | None = None
    export: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


def settle(model: Model, engine: EngineName, *, folder: Path) -> tuple[Chosen, ...]:
    """What is to run every part of ``model``; what has no export yet is exported now.

    Args:
        model: as torch runs it.
        engine: a name, or ``auto`` for what ``tertium tune`` found best on this machine.
        folder: the model's own, which may hold exports.
    """
    if model.kind is Kind.STATIC and engine in (EngineName.STATIC, EngineName.AUTO):
        return (Chosen(engine=EngineName.STATIC),)  # as it is
    if engine is EngineName.STATIC:
        return (_chosen(engine, static_export(model)),)
    if engine is EngineName.AUTO:
        return tuple(_by_tuning(model, folder=folder))
    return tuple(_chosen(engine, ensure(part, engine, folder=folder)) for part in parts_of(model))


def run_by(model: Model, engines: Sequence[Chosen], *, folder: Path, threads: int) -> Model:
    """``model`` run as was settled: the same object, or for ``static`` another one.

    Args:
        model: as torch runs it.
        engines: what :func:`settle` gave.
        folder: the model's own, which may hold exports.
        threads: of each engine.

    Raises:
        TertiumError: an export that is found here is another one.
    """
    if engines[0].engine is EngineName.STATIC:
        if engines[0].export is not None:
            _check_same(engines[0], static_export(model), model.name)
        return with_engine(model, EngineName.STATIC)
    for part, chosen in zip(parts_of(model), engines, strict=True):
        running = None
        if chosen.engine is not EngineName.TORCH:
            export = ensure(part, chosen.engine, folder=folder)
            _check_same(chosen, export, model.name)
            running = open_engine(part, chosen.engine, export.folder, threads=threads)
        part.use(running, token_budget=chosen.token_budget)
    return model


def _by_tuning(model: Model, *, folder: Path) -> Iterator[Chosen]:
    for part, best in tuned_parts(model):
        chosen = Chosen(engine=EngineName.TORCH)
        if best is not None and best.engine is EngineName.TORCH:
            chosen = Chosen(engine=EngineName.TORCH, token_budget=best.token_budget)
        elif best is not None:
            with or_torch(part, best.engine):
                export = ensure(part, best.engine, folder=folder)
                check_engine(part, best.engine, export.folder)
                chosen = _chosen(best.engine, export, budget=best.token_budget)
        yield chosen


def _chosen(engine: EngineName, export: Export, *, budget: int | None = None) -> Chosen:
    return Chosen(
        engine=engine,
        token_budget=budget,
        export=_hash(export),
        settings=export.record.settings,
    )


def _hash(export: Export) -> str:
    files = sorted(export.record.files.items())
    lines = (f"{name}\0{mark.sha256}\n" for name, mark in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _check_same(chosen: Chosen, export: Export, name: str) -> None:
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
