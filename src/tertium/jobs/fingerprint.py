"""What tells whether an input or a model is still the same."""

import hashlib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tertium.files import existing_file, sha256
from tertium.models.names import resolve, resolve_base
from tertium.records.manifest import FILE_NAME, read_manifest

__all__ = ["InputFile", "describe_input", "model_fingerprint", "same_input"]

# What makes vectors: weights, settings and vocabularies, but no cards and no pictures.
_ENDINGS = (".safetensors", ".bin", ".json", ".txt", ".model", ".spm", ".npy")


class InputFile(BaseModel):
    """A file by its content; size and time only spare reading it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sha256: str
    size: int
    modified: int  # nanoseconds


def describe_input(path: Path) -> InputFile:
    """Read ``path`` and describe it."""
    status = existing_file(path).stat()
    return InputFile(
        name=path.name, sha256=sha256(path), size=status.st_size, modified=status.st_mtime_ns
    )


def same_input(path: Path, known: InputFile) -> bool:
    """Whether ``path`` still is what ``known`` describes; where size and time agree it is."""
    status = existing_file(path).stat()
    if status.st_size != known.size:
        return False
    return status.st_mtime_ns == known.modified or sha256(path) == known.sha256


def model_fingerprint(name: str, *, revision: str | None = None) -> str:
    """One hash of everything that makes a model's vectors, the bases of adapters included."""
    found = hashlib.sha256()
    for folder in _folders(resolve(name, revision=revision)):
        for path in sorted(folder.rglob("*")):
            own = "engines" not in path.relative_to(folder).parts  # exports: see ``engine``
            if own and path.suffix in _ENDINGS and path.is_file():
                place = path.relative_to(folder).as_posix()
                found.update(f"{place}\0{sha256(path)}\n".encode())
    return found.hexdigest()


def _folders(folder: Path) -> list[Path]:
    """A model's folder, and those of the models that it builds on."""
    found = [folder]
    for known in found:  # which grows meanwhile: a base may have one of its own
        for path in sorted(known.rglob(FILE_NAME)):
            manifest = read_manifest(path.parent)
            if manifest is None or "base" not in manifest.details:
                continue
            base = resolve_base(path.parent, manifest.details)
            if base not in found:
                found.append(base)
    return found
