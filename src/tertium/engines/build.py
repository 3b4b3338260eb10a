"""Exports that are made once, checked against torch, and kept: in the cache or with the model."""

import contextlib
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from tertium.engines import ENGINES
from tertium.engines.calibration import Plan
from tertium.engines.check import check_engine, open_engine
from tertium.engines.int8 import Form
from tertium.engines.parity import check_parity
from tertium.engines.parts import Part
from tertium.engines.quantisation import int8_plans, weight_levels, write_int8
from tertium.engines.records import (
    RECORD,
    DamagedExportError,
    Record,
    export_folder,
    read_record,
    write_record,
)
from tertium.engines.runtimes import GRAPH
from tertium.errors import TertiumError, TertiumWarning, require
from tertium.files import atomic_folder, cache_folder
from tertium.records.lock import lock
from tertium.types import EngineName

__all__ = ["Export", "cpu_threads", "ensure", "find", "kept"]

_EXPORTING = ("onnx", "onnxscript", "onnxruntime")
_INT8: dict[EngineName, Form] = {
    EngineName.ONNX_INT8: "integer",
    EngineName.OPENVINO_INT8: "pairs",
}


@dataclass(frozen=True)
class Export:
    """An export that is whole.

    Attributes:
        folder: where it is.
        record: what it says about itself.
    """

    folder: Path
    record: Record


def cpu_threads(threads: int | None = None) -> int:
    """Threads of an engine: as many as torch has, unless told otherwise."""
    return torch.get_num_threads() if threads is None else threads


def ensure(
    part: Part,
    engine: EngineName,
    *,
    folder: Path | None = None,
    keep_float: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Export:
    """The export of ``part`` for ``engine``, made now if there is none.

    Several processes may ask for the same: one makes it, the others wait for it.

    Args:
        part: what to export.
        engine: one with a graph.
        folder: the model's own, which may hold the export; else it is in the cache.
        keep_float: for int8, leave so many layers in float, those that hurt most; by default
            take the export that is there, or leave none.
        threads: while it is made.
        progress: False for no progress on standard error.
    """

    def usable(record: Record) -> bool:
        return keep_float is None or record.settings.get("keep_float", 0) == keep_float

    def make(temporary: Path) -> Record:
        return _make(
            part,
            engine,
            temporary,
            keep_float=keep_float or 0,
            threads=cpu_threads(threads),
            progress=progress,
        )

    if folder is not None:
        found = find(export_folder(folder, part.fingerprint, engine), part.fingerprint)
        if found is not None and usable(found.record):
            return found
    return kept(part.fingerprint, engine, make, usable=usable)


def kept(
    fingerprint: str,
    engine: EngineName,
    make: Callable[[Path], Record],
    *,
    usable: Callable[[Record], bool] = lambda record: True,
) -> Export:
    """What the cache holds under this name, or what ``make`` puts into a folder for it."""
    target = export_folder(cache_folder(), fingerprint, engine)
    with contextlib.suppress(DamagedExportError, OSError):  # told of below, where it is mended
        record = read_record(target, fingerprint=fingerprint)
        if record is not None and usable(record):
            return Export(target, record)  # without a lock: the cache may be read-only
    with lock(target.with_name(f"{engine}.lock")):
        found = find(target, fingerprint)
        if found is not None and usable(found.record):  # another process has made it meanwhile
            return found
        with atomic_folder(target, last=RECORD) as temporary:
            record = make(temporary)
    return Export(target, record)


def find(folder: Path, fingerprint: str) -> Export | None:
    """A whole export in ``folder``, or None; one that is damaged is told of."""
    try:
        record = read_record(folder, fingerprint=fingerprint)
    except DamagedExportError as error:
        warnings.warn(f"{error}: this export is not used.", TertiumWarning, stacklevel=2)
        return None
    return None if record is None else Export(folder, record)


def _make(
    part: Part,
    engine: EngineName,
    folder: Path,
    *,
    keep_float: int,
    threads: int,
    progress: bool | None,
) -> Record:
    """Write the graph and its record; raise if it is too far from torch."""
    settings: dict[str, int] = {}
    require("fast", purpose=f"Exporting for {engine}", packages=_EXPORTING)
    if engine is EngineName.ONNX:
        part.write(folder / GRAPH)
    else:
        plain = ensure(part, EngineName.ONNX, threads=threads, progress=progress).folder
        if engine in _INT8:
            check_engine(part, EngineName.ONNX, plain)  # which calibrates

            def try_int8(plans: Mapping[str, Plan]) -> None:
                write_int8(plain / GRAPH, folder / GRAPH, plans, form="integer")
                check_engine(part, EngineName.ONNX_INT8, folder)

            settings = {"keep_float": keep_float, "weight_levels": weight_levels()}
            plans = int8_plans(
                plain / GRAPH,
                part.calibration(),
                keep_float=keep_float,
                threads=threads,
                progress=progress,
                before_measuring=try_int8,
            )
            write_int8(plain / GRAPH, folder / GRAPH, plans, form=_INT8[engine])
        else:
            _link_files(plain, folder)
    what = f"The export of {part.name} for {engine}"
    expected = part.results()
    try:
        part.use(open_engine(part, engine, folder, threads=threads))
        found = part.results()
    except TertiumError:
        raise
    except Exception as error:  # ONNX Runtime and OpenVINO have kinds of their own
        raise TertiumError(f"{what} does not run: {_first_line(error)} Use torch.") from error
    finally:
        part.use(None)
    parity = part.parity(found, expected)
    check_parity(parity, exact=ENGINES[engine].exact, what=what)
    versions = {name: version(name) for name in ("tertium", "torch", *ENGINES[engine].packages)}
    return write_record(
        folder,
        engine=engine,
        fingerprint=part.fingerprint,
        settings=settings,
        parity=parity,
        versions=versions,
    )


def _first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0][:200].rstrip(".")
    return f"{line}."


def _link_files(source: Path, target: Path) -> None:
    """The graph files of one export in another folder, as links where the disk allows it."""
    for path in source.iterdir():
        if path.name == RECORD:
            continue
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copyfile(path, target / path.name)
