"""``tertium.json``: the manifest of a saved model."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tertium.errors import TertiumError
from tertium.records.decision import Decision
from tertium.records.record import VERSION, Frozen, Record, invalid, read_record, write_record
from tertium.types import Kind, Pooling

__all__ = [
    "DECISION",
    "FILE_NAME",
    "FORMAT",
    "Manifest",
    "MemberEntry",
    "TrainingData",
    "read_decision",
    "read_manifest",
    "read_members",
    "write_manifest",
]

FILE_NAME = "tertium.json"
FORMAT = 1
DECISION = "decision"  # a key of the details, so that older versions ignore it


class TrainingData(Frozen):
    """A data set used in training, or to choose a checkpoint or a threshold."""

    name: str  # a benchmark name such as "STS-B", or the file name of the user's own data
    split: str | None = None
    use: str = "training"  # or "selection", or "decision" for threshold and calibration


class MemberEntry(BaseModel):
    """A member of an ensemble: its folder, its name and its weight."""

    model_config = ConfigDict(frozen=True)

    folder: str
    name: str
    weight: float = Field(allow_inf_nan=False)


class Manifest(Record):
    """Kind, pooling, score scale and training data of a saved model."""

    remedy: ClassVar[str] = f"Save the model again with tertium {VERSION}."

    format: int = FORMAT
    kind: Kind
    pooling: Pooling | None = None
    scale: tuple[float, float]
    training_data: tuple[TrainingData, ...] = ()
    details: dict[str, Any] = Field(default_factory=dict)  # depends on the kind


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of ``folder``, or None if there is none."""
    path = folder / FILE_NAME
    return read_record(path, Manifest) if path.exists() else None


def read_decision(folder: Path, manifest: Manifest) -> Decision | None:
    """The decision in the manifest of ``folder``, or None."""
    found = manifest.details.get(DECISION)
    if found is None:
        return None
    try:
        return Decision.model_validate(found)
    except ValidationError as error:
        remedy = f"Fit again with tertium {VERSION}: tertium fit"
        raise invalid(folder / FILE_NAME, error, "details", DECISION, remedy=remedy) from error


def read_members(folder: Path, manifest: Manifest) -> list[tuple[Path, MemberEntry]]:
    """The members listed in the manifest of ``folder``, each with its path."""
    path = folder / FILE_NAME
    try:
        entries = TypeAdapter(list[MemberEntry]).validate_python(manifest.details.get("members"))
    except ValidationError as error:
        raise invalid(path, error, "details", "members", remedy=Manifest.remedy) from error
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
    """Write ``tertium.json`` into ``folder`` atomically."""
    write_record(folder / FILE_NAME, manifest)
