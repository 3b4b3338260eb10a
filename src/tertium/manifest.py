"""``tertium.json``: what a saved model folder says about itself."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.types import Kind, Pooling

__all__ = ["FILE_NAME", "FORMAT", "Manifest", "TrainingData", "read_manifest", "write_manifest"]

FILE_NAME = "tertium.json"
FORMAT = 1
_VERSION = version("tertium")


class TrainingData(BaseModel):
    """A data set the model has seen, in training or when its checkpoint was chosen."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # a benchmark name such as "STS-B", or the file name of the user's own data
    split: str | None = None
    use: str = "training"  # or "selection"


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
    content = path.read_text(encoding="utf-8")
    _check_format(path, content)
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise TertiumError(
            f"{path}: {where}: {first['msg']}. Save the model again with tertium {_VERSION}."
        ) from error
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write ``tertium.json`` into ``folder``, whole or not at all."""
    with atomic_path(folder / FILE_NAME) as temporary:
        temporary.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _check_format(path: Path, content: str) -> None:
    """A newer format may differ in anything, so it is looked for before all else."""
    try:
        fields = json.loads(content)
    except ValueError:
        return
    newer = fields.get("format") if isinstance(fields, dict) else None
    if isinstance(newer, int) and newer > FORMAT:
        raise TertiumError(
            f"{path}: format {newer} was written by tertium {fields.get('tertium', 'unknown')}; "
            f"this is {_VERSION}, which reads up to format {FORMAT}. Upgrade tertium."
        )
