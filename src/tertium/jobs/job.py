"""``_job.json``: what a folder of shards is made of, so that nothing else gets mixed in.

Records begin with an underscore so that readers of Parquet folders take only the shards for data.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.jobs.engine import Chosen
from tertium.jobs.fingerprint import InputFile
from tertium.jobs.plan import Shard, plan
from tertium.jobs.source import SKIPPED, Content

__all__ = [
    "JOB",
    "Job",
    "Model",
    "check_folder",
    "check_options",
    "read_job",
    "record",
    "write_job",
]

JOB = "_job.json"
FORMAT = 1
_VERSION = version("tertium")


class Model(BaseModel):
    """A model as the user named it, and the hash of what makes its vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    sha256: str


class Job(BaseModel):
    """Everything that decides about the output; how many processes make it does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    tertium: str = _VERSION
    content: Content
    input: InputFile
    model: Model
    options: dict[str, Any]
    engines: tuple[Chosen, ...] = ()  # of each part of the model; none: torch
    rows: int
    skipped: int
    shard_rows: int

    @property
    def shards(self) -> list[Shard]:
        """The plan."""
        return plan(self.rows, size=self.shard_rows)


def record(folder: Path, name: str) -> Path:
    """The file of a record; earlier versions named it without the underscore."""
    path, earlier = folder / name, folder / name.removeprefix("_")
    return earlier if earlier.exists() and not path.exists() else path


def read_job(folder: Path) -> Job | None:
    """The job that ``folder`` holds, or None."""
    path = record(folder, JOB)
    if not path.exists():
        return None
    try:
        return Job.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise TertiumError(
            f"{path} is not a job that tertium {_VERSION} can go on with. Name another folder, or "
            "remove this one."
        ) from error


def write_job(folder: Path, job: Job) -> None:
    """Write ``_job.json``, whole or not at all."""
    with atomic_path(folder / JOB, durable=True) as temporary:
        temporary.write_text(job.model_dump_json(indent=2) + "\n", encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Raise if a new job would land among files that are not its own."""
    if folder.exists() and not folder.is_dir():
        raise TertiumError(f"{folder} is a file; shards go to a folder. Name another.")
    own = (path.name.startswith(".") or path.name == SKIPPED for path in folder.glob("*"))
    if not all(own):  # a job killed before it began leaves only those
        raise TertiumError(
            f"{folder} is not empty and holds no {JOB}. Name another folder, or remove it."
        )


def check_options(folder: Path, job: Job, **now: Any) -> None:
    """Raise if the folder's job was begun with anything else than what is asked for now.

    Args:
        folder: where it is.
        job: what it was begun with.
        now: ``content``, the model's ``sha256``, and options by name.
    """
    before = {"content": job.content, "model": job.model.sha256, **job.options}
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        what = (
            f"the model ({job.model.name}) is not the same as before"
            if name == "model"
            else f"{name.replace('_', '-')} was {_shown(old)} and is now {_shown(new)}"
        )
        raise TertiumError(
            f"{folder} holds another job: {what}. Repeat the old command, or name another folder."
        )


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(str(value))
