"""``tertium.json``: what a saved model folder says about itself."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.types import Kind, Pooling

__all__ = [
    "FILE_NAME",
    "FORMAT",
    "Manifest",
    "MemberEntry",
    "TrainingData",
    "read_manifest",
    "read_members",
    "write_manifest",
]

FILE_NAME = "tertium.json"
FORMAT = 1
_VERSION = version("tertium")


class TrainingData(BaseModel):
    """A data set the model has seen, in training or when its checkpoint was chosen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # a benchmark name such as "STS-B", or the file name of the user's own data
    split: str | None = None
    use: str = "training"  # or "selection"


class MemberEntry(BaseModel):
    """A model inside another one: its folder there, its name, and the weight of what it gives."""

    model_config = ConfigDict(frozen=True)

    folder: str
    name: str
    weight: float = Field(allow_inf_nan=False)


class Manifest(BaseModel):
    """Kind, pooling and score scale of a model folder, and what it was trained on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    kind: Kind
    pooling: Pooling | None = None
    scale: tuple[float, float]
    tertium: str = _VERSION
    training_data: tuple[TrainingData, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)  # whatever the kind needs to come back


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of ``folder``, or None where there is none."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    content = path.read_bytes()
    _check_format(path, content)
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise _mistake(path, error) from error
    return manifest


def read_members(folder: Path, manifest: Manifest) -> list[tuple[Path, MemberEntry]]:
    """The members that the manifest of ``folder`` lists, each with its folder inside this one."""
    path = folder / FILE_NAME
    try:
        entries = TypeAdapter(list[MemberEntry]).validate_python(manifest.details.get("members"))
    except ValidationError as error:
        raise _mistake(path, error, "details", "members") from error
    if not entries:
        raise TertiumError(f"{path}: the list of members is empty. Save the model again.")
    for entry in entries:
        place = (folder / entry.folder).resolve()
        if folder.resolve() not in place.parents:
            raise TertiumError(
                f"{path}: the member {entry.folder!r} is not a folder inside {folder}. Save the "
                "model again with its members."
            )
    return [(folder / entry.folder, entry) for entry in entries]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``tertium.json`` into ``folder``, whole or not at all."""
    with atomic_path(folder / FILE_NAME) as temporary:
        temporary.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _mistake(path: Path, error: ValidationError, *place: str) -> TertiumError:
    first = error.errors()[0]
    where = ".".join(map(str, (*place, *first["loc"]))) or "the file"
    return TertiumError(
        f"{path}: {where}: {first['msg']}. Save the model again with tertium {_VERSION}."
    )


def _check_format(path: Path, content: bytes) -> None:
    """A newer format may differ in anything, so it is looked for before all else."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return
    newer = fields.get("format") if isinstance(fields, dict) else None
    if isinstance(newer, int) and newer > FORMAT:
        raise TertiumError(
            f"{path}: format {newer} was written by tertium {fields.get('tertium', 'unknown')}; "
            f"this is {_VERSION}, which reads up to format {FORMAT}. Upgrade tertium."
        )
