"""Versioned JSON records, and file marks (size and hash)."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tertium.errors import TertiumError
from tertium.files import existing_file, sha256, sync, write_text

__all__ = [
    "VERSION",
    "FileMark",
    "Frozen",
    "InputMark",
    "Record",
    "invalid",
    "parse_record",
    "read_record",
    "write_record",
]

VERSION = version("tertium")


class Frozen(BaseModel):
    """An immutable value without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(Frozen):
    """The content of a JSON file; ``format`` is incremented when a kind of record changes fields.

    Attributes:
        remedy: what to do about a file that cannot be read, for messages.
        format: the default is the newest that this version reads.
        tertium: the version that wrote it.
    """

    remedy: ClassVar[str]

    format: int = 1
    tertium: str = VERSION


R = TypeVar("R", bound=Record)


def read_record(path: Path, kind: type[R]) -> R:
    """Read the record in ``path``.

    Raises:
        TertiumError: a newer version wrote it, or it is damaged.
    """
    return parse_record(path.read_bytes(), kind, path=path)


def parse_record(content: str | bytes, kind: type[R], *, path: Path) -> R:
    """The record in ``content``, which was read from ``path``; raises like :func:`read_record`."""
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):  # reported below, with its position
        fields = None
    found = fields.get("format") if isinstance(fields, dict) else None
    newest = kind.model_fields["format"].default
    if isinstance(found, int) and found > newest:  # anything may differ, so this is checked first
        raise TertiumError(
            f"{path}: format {found} was written by tertium {fields.get('tertium', 'unknown')}; "
            f"this is {VERSION}, which reads up to format {newest}. Upgrade tertium."
        )
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise invalid(path, error, remedy=kind.remedy) from error


def write_record(path: Path, record: Record, *, durable: bool = False) -> None:
    """Write ``record`` atomically; with ``durable`` it survives a power failure."""
    write_text(path, record.model_dump_json(indent=2, by_alias=True) + "\n", durable=durable)


def invalid(path: Path, error: ValidationError, *place: str, remedy: str) -> TertiumError:
    """The error for a file with an invalid value, located by ``place`` and the path below it."""
    first = error.errors()[0]
    where = ".".join(map(str, (*place, *first["loc"]))) or "the file"
    return TertiumError(f"{path}: {where}: {first['msg']}. {remedy}")


class FileMark(Frozen):
    """Size and hash of a file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path, *, durable: bool = False, **fields: Any) -> Self:
        """The mark of a finished file; with ``durable`` it is flushed to disk first."""
        if durable:
            sync(path)
        return cls(size=path.stat().st_size, sha256=sha256(path), **fields)

    def fault(
        self, path: Path, *, contents: bool = True, hashed: Callable[[Path], str] | None = None
    ) -> str | None:
        """How the file at ``path`` differs, as the end of a sentence; None if it does not.

        Args:
            path: the file.
            contents: also compare hashes.
            hashed: returns the hash, perhaps cached (default: read the file).

        Raises:
            FileNotFoundError: the file is missing.
        """
        size = path.stat().st_size
        if size != self.size:
            return f"has {size:,} bytes instead of {self.size:,}"
        if contents and (hashed or sha256)(path) != self.sha256:
            return "has changed (its sha256 differs)"
        return None


class InputMark(FileMark):
    """The mark of an input file; its time only saves reading it again."""

    name: str
    modified: int  # nanoseconds

    @classmethod
    def of(cls, path: Path, **fields: Any) -> Self:
        """The mark of ``path``."""
        modified = existing_file(path).stat().st_mtime_ns
        return super().of(path, name=path.name, modified=modified, **fields)

    def matches(self, path: Path) -> bool:
        """Whether ``path`` is still this input; the hash is compared only if the time differs."""
        same_time = existing_file(path).stat().st_mtime_ns == self.modified
        return self.fault(path, contents=not same_time) is None
