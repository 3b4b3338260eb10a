"""Exports: made once, checked against torch, and kept in the cache or in the model's own folder.

Beside the graph is ``engine.json``, which records what it was made of and detects damage.
"""

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import Field

from tertium.engines import ENGINES, check_export, engine_name
from tertium.engines.check import check_engine, open_engine
from tertium.engines.graphs import PartGraph, graphs_of
from tertium.engines.int8 import Form, int8_plans, weight_levels, without_sensitive, write_int8
from tertium.engines.parity import Parity, check_parity
from tertium.engines.runtimes import GRAPH
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.files import atomic_folder, cache_folder, remembered_sha256, writable_cache
from tertium.hardware import default_threads
from tertium.models.base import Model
from tertium.records.lock import lock
from tertium.records.record import FileMark, Frozen
from tertium.types import EngineName

__all__ = [
    "RECORD",
    "DamagedExportError",
    "Export",
    "ExportRecord",
    "ExportedPart",
    "cpu_threads",
    "ensure",
    "export",
    "export_folder",
    "read_export",
    "static_export",
]

FORMAT = 3  # incremented when the way graphs are written changes, so that old ones are rebuilt
RECORD = "engine.json"
_EXPORTING = ("onnx", "onnxruntime")
_INT8: dict[EngineName, Form] = {
    EngineName.ONNX_INT8: "integer",
    EngineName.OPENVINO_INT8: "pairs",
}


class DamagedExportError(TertiumError):
    """The files of an export do not match its record."""


class ExportRecord(Frozen):
    """The record of an export.

    Attributes:
        format: format of the export.
        engine: the engine that runs it.
        fingerprint: hash of the model.
        files: all other files in the folder.
        settings: settings it was made with.
        parity: agreement with torch; None for a static model, which is a different model, and for
            the float graph of a model that was read without torch.
        versions: versions of the libraries that made it.
    """

    format: int = FORMAT
    engine: EngineName
    fingerprint: str
    files: dict[str, FileMark]
    settings: dict[str, Any] = Field(default_factory=dict)
    parity: Parity | None = None
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(mark.size for mark in self.files.values())


def export_folder(root: Path, fingerprint: str, engine: EngineName) -> Path:
    """The folder of a model's export for an engine, in a cache or in the model's own folder."""
    return root / "engines" / fingerprint[:32] / engine


def read_export(folder: Path, *, fingerprint: str) -> ExportRecord | None:
    """The record of an intact export; None if there is none, or it has another format.

    Raises:
        DamagedExportError: a file is missing, truncated or changed.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and content.get("format") != FORMAT:
            return None
        record = ExportRecord.model_validate(content)
    except (ValueError, RecursionError) as error:
        raise DamagedExportError(f"{path} cannot be read") from error
    if record.fingerprint != fingerprint:
        raise DamagedExportError(f"{path} belongs to another model")
    for name, mark in record.files.items():
        path = folder / name
        fault = mark.fault(path, hashed=remembered_sha256) if path.is_file() else "is missing"
        if fault is not None:
            raise DamagedExportError(f"{path} {fault}")
    return record


def _write_record(folder: Path, **fields: Any) -> ExportRecord:
    """Write the record of all files in ``folder``."""
    files = {
        str(path.relative_to(folder)): FileMark.of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != RECORD
    }
    record = ExportRecord(files=files, **fields)
    (folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return record


@dataclass(frozen=True)
class Export:
    """An intact export."""

    folder: Path
    record: ExportRecord


def cpu_threads(threads: int | None = None) -> int:
    """Threads of an engine; by default ``OMP_NUM_THREADS``, or one per core."""
    return default_threads() if threads is None else threads


def ensure(
    graph: PartGraph,
    engine: EngineName,
    *,
    folder: Path | None = None,
    keep_float: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Export:
    """The export of ``graph`` for ``engine``, made now if there is none.

    If several processes need the same export, one makes it and the others wait.

    Args:
        graph: what to export.
        engine: an engine that runs graphs.
        folder: the model's own folder, which may contain the export; otherwise it is in the cache.
        keep_float: for int8, keep this many of the most sensitive layers in float; by default use
            an existing export, or keep none.
        threads: threads used to make it.
        progress: False for no progress on standard error.
    """

    def usable(record: ExportRecord) -> bool:
        return keep_float is None or record.settings.get("keep_float", 0) == keep_float

    def make(temporary: Path) -> ExportRecord:
        return _make(
            graph,
            engine,
            temporary,
            keep_float=keep_float or 0,
            threads=cpu_threads(threads),
            progress=progress,
        )

    if folder is not None:
        found = find(export_folder(folder, graph.fingerprint, engine), graph.fingerprint)
        if found is not None and usable(found.record):
            return found
    return kept(graph.fingerprint, engine, make, usable=usable)


def kept(
    fingerprint: str,
    engine: EngineName,
    make: Callable[[Path], ExportRecord],
    *,
    usable: Callable[[ExportRecord], bool] = lambda record: True,
) -> Export:
    """The cached export, or the one that ``make`` writes into a folder."""
    target = export_folder(cache_folder(), fingerprint, engine)
    with contextlib.suppress(DamagedExportError, OSError):  # reported and rebuilt below
        record = read_export(target, fingerprint=fingerprint)
        if record is not None and usable(record):
            return Export(target, record)  # without a lock: the cache may be read-only
    target = export_folder(writable_cache(), fingerprint, engine)
    with lock(target.with_name(f"{engine}.lock")):
        found = find(target, fingerprint)
        if found is not None and usable(found.record):  # another process may have made it meanwhile
            return found
        with atomic_folder(target, last=RECORD) as temporary:
            record = make(temporary)
    return Export(target, record)


def find(folder: Path, fingerprint: str) -> Export | None:
    """An intact export in ``folder``, or None; a damaged one is reported."""
    try:
        record = read_export(folder, fingerprint=fingerprint)
    except DamagedExportError as error:
        warnings.warn(f"{error}: this export is not used.", TertiumWarning, stacklevel=2)
        return None
    return None if record is None else Export(folder, record)


def _make(
    graph: PartGraph,
    engine: EngineName,
    folder: Path,
    *,
    keep_float: int,
    threads: int,
    progress: bool | None,
) -> ExportRecord:
    """Write the graph and its record; raise if it differs too much from torch."""
    settings: dict[str, int] = {}
    require("fast", purpose=f"Exporting for {engine}", packages=_EXPORTING)
    plain = folder
    if engine is EngineName.ONNX:
        graph.write(folder / GRAPH)
    else:
        plain = ensure(graph, EngineName.ONNX, threads=threads, progress=progress).folder
        if engine in _INT8:
            settings = {"keep_float": keep_float, "weight_levels": weight_levels()}
            _quantise(graph, engine, plain, folder, keep_float, threads=threads, progress=progress)
        else:
            _link_files(plain, folder)
    parity = _parity(graph, engine, folder, plain, threads=threads)
    made_by = () if graph.part.needs_engine else ("torch",)
    packages = ("tertium", *made_by, *ENGINES[engine].packages)
    versions = {name: version(name) for name in packages}
    return _write_record(
        folder,
        engine=engine,
        fingerprint=graph.fingerprint,
        settings=settings,
        parity=parity,
        versions=versions,
    )


def _quantise(
    graph: PartGraph,
    engine: EngineName,
    plain: Path,
    folder: Path,
    keep_float: int,
    *,
    threads: int,
    progress: bool | None,
) -> None:
    """Write the 8-bit form of the float graph in ``plain`` into ``folder``."""
    check_engine(graph, EngineName.ONNX, plain)  # calibration runs it
    source, target, batches = plain / GRAPH, folder / GRAPH, graph.calibration()
    even = _INT8[engine] == "integer"  # OpenVINO is less accurate with scaled channels
    plans = int8_plans(source, batches, threads=threads, even=even, progress=progress)
    if keep_float > 0:
        write_int8(source, target, plans, form="integer")
        check_engine(graph, EngineName.ONNX_INT8, folder)  # measuring layers runs integers here
        plans = without_sensitive(
            source, batches, plans, count=keep_float, threads=threads, progress=progress
        )
    write_int8(source, target, plans, form=_INT8[engine])


def _parity(
    graph: PartGraph, engine: EngineName, folder: Path, plain: Path, *, threads: int
) -> Parity | None:
    """Agreement of the export in ``folder`` with torch; raises if it is too low.

    A model that was read without torch is compared with its float graph in ``plain``, which itself
    is only run.
    """
    what = f"The export of {graph.name} for {engine}"
    light = graph.part.needs_engine
    if light and engine is EngineName.ONNX:
        check_engine(graph, engine, folder)
        return None
    try:
        if light:
            graph.use(open_engine(graph, EngineName.ONNX, plain, threads=threads))
        expected = graph.results()
        graph.use(open_engine(graph, engine, folder, threads=threads))
        found = graph.results()
    except TertiumError:
        raise
    except Exception as error:  # ONNX Runtime and OpenVINO raise errors of their own
        reason = str(error).strip().splitlines()[0][:200].rstrip(".")
        raise TertiumError(f"{what} does not run: {reason}. Use torch.") from error
    finally:
        graph.use(None)
    parity = graph.parity(found, expected)
    check_parity(parity, exact=ENGINES[engine].exact, what=what)
    return parity


def _link_files(source: Path, target: Path) -> None:
    """Hard-link the graph files of one export into another folder, or copy them."""
    for path in source.iterdir():
        if path.name == RECORD:
            continue
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copyfile(path, target / path.name)


@dataclass(frozen=True)
class ExportedPart:
    """The export of a model, or of one of its members."""

    name: str
    folder: Path
    record: ExportRecord


def export(
    model: Model,
    engine: EngineName | str,
    *,
    output: str | os.PathLike[str] | None = None,
    keep_float: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> list[ExportedPart]:
    """Export every part of ``model`` unless that was done before, and check it against torch.

    Args:
        model: a model loaded with torch.
        engine: any engine but torch and auto.
        output: also save the model with its exports in this new folder, where
            :func:`tertium.load` finds them; for ``static`` only the static model.
        keep_float: for int8, keep this many of the most sensitive layers in float.
        threads: threads used for exporting (default: one per core).
        progress: False for no progress on standard error.
    """
    name = engine_name(engine)
    check_export(name, output=output, keep_float=keep_float)
    if name is EngineName.STATIC:
        return [_static(model, output)]
    exports = []
    for graph in graphs_of(model):
        made = ensure(graph, name, keep_float=keep_float, threads=threads, progress=progress)
        exports.append((graph, _compared(graph, made, threads=cpu_threads(threads))))
    if output is None:
        return [ExportedPart(graph.name, made.folder, made.record) for graph, made in exports]
    model.save(Path(output))
    return [
        ExportedPart(graph.name, _copied(made, Path(output)), made.record)
        for graph, made in exports
    ]


def _compared(graph: PartGraph, made: Export, *, threads: int) -> Export:
    """Compare an export with torch if it was made without torch."""
    if made.record.parity is not None or graph.part.needs_engine:
        return made
    parity = _parity(graph, made.record.engine, made.folder, made.folder, threads=threads)
    return Export(made.folder, made.record.model_copy(update={"parity": parity}))


def static_export(model: Model) -> Export:
    """The static copy of an encoder, distilled now if the cache has none."""
    if model.parts != (model,) or model.takes_conditions:
        raise TertiumError(
            f"{model.name} cannot be made static, because it is not a single transformer encoder. "
            "Choose one, or distil the model into one with tertium distil."
        )
    fingerprint = model.fingerprint

    def make(folder: Path) -> ExportRecord:
        from tertium.engines.static import agreement, distil_static

        encoder = model.encoder
        static = distil_static(encoder)
        static.save(folder)
        settings = {"dimensions": static.dimension, "agreement": agreement(static, encoder)}
        return _write_record(
            folder, engine=EngineName.STATIC, fingerprint=fingerprint, settings=settings
        )

    return kept(fingerprint, EngineName.STATIC, make)


def _static(model: Model, output: str | os.PathLike[str] | None) -> ExportedPart:
    from tertium.models.static import StaticEncoder

    made = static_export(model)
    if output is None:
        return ExportedPart(model.name, made.folder, made.record)
    StaticEncoder.load(made.folder).save(Path(output))
    return ExportedPart(model.name, Path(output), made.record)


def _copied(made: Export, output: Path) -> Path:
    """Copy an export to a model's own folder."""
    target = export_folder(output, made.record.fingerprint, made.record.engine)
    with atomic_folder(target, last=RECORD) as temporary:
        for name in (*made.record.files, RECORD):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made.folder / name, temporary / name)
    return target
