"""``_job.json``: what a folder of shards is made of, so that nothing else gets mixed in."""

from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from tertium.data.shards import JOB, StoredJob, record_path
from tertium.errors import TertiumError
from tertium.jobs.engine import Chosen
from tertium.jobs.source import SKIPPED
from tertium.records.record import Frozen, InputMark, read_record, write_record

__all__ = ["Job", "Model", "check_folder", "check_options", "read_job", "write_job"]


class Model(Frozen):
    """A model as the user named it, and the hash of what makes its vectors."""

    name: str
    sha256: str


class Job(StoredJob):
    """Everything that decides about the output; how many processes make it does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: InputMark
    model: Model
    options: dict[str, Any]
    engines: tuple[Chosen, ...] = ()  # of each part of the model; none: torch
    skipped: int


def read_job(folder: Path) -> Job | None:
    """The job that ``folder`` holds, or None."""
    path = record_path(folder, JOB)
    return read_record(path, Job) if path.exists() else None


def write_job(folder: Path, job: Job) -> None:
    """Write ``_job.json``, whole or not at all."""
    write_record(folder / JOB, job, durable=True)


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
