"""Export a model for an engine: into the cache, or with the model into a folder of its own."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tertium.engines import check_export, engine_name
from tertium.engines.attach import static_export
from tertium.engines.build import Export, ensure
from tertium.engines.parts import parts_of
from tertium.engines.records import RECORD, Record, export_folder
from tertium.files import atomic_folder
from tertium.models import StaticEncoder
from tertium.models.base import Model
from tertium.types import EngineName

__all__ = ["ExportedPart", "export"]


@dataclass(frozen=True)
class ExportedPart:
    """The export of a model, or of one of its members.

    Attributes:
        name: what results call it.
        folder: where its files are.
        record: what they are, and how near they come to torch.
    """

    name: str
    folder: Path
    record: Record


def export(
    model: Model,
    engine: EngineName | str,
    *,
    output: str | os.PathLike[str] | None = None,
    keep_float: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> list[ExportedPart]:
    """Export every part of ``model``, unless that was done before, and check it against torch.

    Args:
        model: a model run by torch.
        engine: any but torch and auto.
        output: also save the model with its exports in this new folder, where
            :func:`tertium.load` finds them; for ``static`` the static model alone.
        keep_float: for int8, leave so many layers in float, those that hurt most.
        threads: while exporting (default: as many as torch has).
        progress: False for no progress on standard error.
    """
    name = engine_name(engine)
    check_export(name, output=output, keep_float=keep_float)
    if name is EngineName.STATIC:
        return [_static(model, output)]
    exports = []
    for part in parts_of(model):
        made = ensure(part, name, keep_float=keep_float, threads=threads, progress=progress)
        exports.append((part, made))
    if output is None:
        return [ExportedPart(part.name, made.folder, made.record) for part, made in exports]
    model.save(Path(output))
    return [
        ExportedPart(part.name, _copied(made, Path(output)), made.record) for part, made in exports
    ]


def _static(model: Model, output: str | os.PathLike[str] | None) -> ExportedPart:
    made = static_export(model)
    if output is None:
        return ExportedPart(model.name, made.folder, made.record)
    StaticEncoder.load(made.folder).save(Path(output))
    return ExportedPart(model.name, Path(output), made.record)


def _copied(made: Export, output: Path) -> Path:
    """The same export in a model's own folder."""
    target = export_folder(output, made.record.fingerprint, made.record.engine)
    with atomic_folder(target, last=RECORD) as temporary:
        for name in (*made.record.files, RECORD):
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made.folder / name, temporary / name)
    return target
