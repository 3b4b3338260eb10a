"""What tells whether a model is still the same, without loading it."""

import hashlib
from pathlib import Path

from tertium.files import sha256
from tertium.models.names import resolve, resolve_base
from tertium.records.manifest import FILE_NAME, read_manifest

__all__ = ["model_fingerprint"]

# What makes vectors: weights, settings and vocabularies, but no cards and no pictures.
_ENDINGS = (".safetensors", ".bin", ".json", ".txt", ".model", ".spm", ".npy")


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
