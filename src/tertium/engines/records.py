"""What lies beside an exported graph and says whether it is whole."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tertium.engines.parity import Parity
from tertium.errors import TertiumError
from tertium.files import sha256
from tertium.types import EngineName

__all__ = ["RECORD", "DamagedExportError", "Record", "export_folder", "read_record", "write_record"]

FORMAT = 1  # counts up when graphs are written in another way, so that old ones are made again
RECORD = "engine.json"


class DamagedExportError(TertiumError):
    """An export is there, and its files are not what its record says."""


class FileMark(BaseModel):
    """Size and hash of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    sha256: str


class Record(BaseModel):
    """What an export is, made of what, and how near it comes to torch.

    Attributes:
        format: of the export.
        engine: that runs it.
        fingerprint: hash of the model.
        files: all others in the folder.
        settings: how it was made.
        parity: None for a static model, which is another one.
        versions: of the libraries that made it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    engine: EngineName
    fingerprint: str
    files: dict[str, FileMark]
    settings: dict[str, Any] = Field(default_factory=dict)
    parity: Parity | None = None
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(mark.size for mark in self.files.values())


def export_folder(root: Path, fingerprint: str, engine: EngineName) -> Path:
    """Where the export of a model for an engine is, in a cache or in the model's own folder."""
    return root / "engines" / fingerprint[:32] / engine


def read_record(folder: Path, *, fingerprint: str) -> Record | None:
    """The record of a whole export; None where there is none, or one of another format.

    Raises:
        DamagedExportError: a file is missing, cut off or changed.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        if isinstance(content, dict) and content.get("format") != FORMAT:
            return None
        record = Record.model_validate(content)
    except (ValueError, RecursionError) as error:
        raise DamagedExportError(f"{path} cannot be read") from error
    if record.fingerprint != fingerprint:
        raise DamagedExportError(f"{path} belongs to another model")
    for name, mark in record.files.items():
        _check(folder / name, mark)
    return record


def write_record(folder: Path, **fields: Any) -> Record:
    """Write the record of all files in ``folder``."""
    files = {
        str(path.relative_to(folder)): FileMark(size=path.stat().st_size, sha256=sha256(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != RECORD
    }
    record = Record(files=files, **fields)
    (folder / RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return record


def _check(path: Path, mark: FileMark) -> None:
    if not path.is_file():
        raise DamagedExportError(f"{path} is missing")
    size = path.stat().st_size
    if size != mark.size:
        raise DamagedExportError(f"{path} has {size:,} bytes instead of {mark.size:,}")
    if sha256(path) != mark.sha256:
        raise DamagedExportError(f"{path} has changed (its sha256 differs)")
