"""Benchmark sets from the Hugging Face hub, for those that no local folder holds."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tertium.data.tables import Record
from tertium.errors import TertiumError, require

__all__ = ["HubSource", "Snapshot", "fetch", "online", "revision_of"]

_PROBE_SECONDS = 3.0


@dataclass(frozen=True)
class HubSource:
    """Where on the hub some splits of a set are.

    Attributes:
        repo: name of the repository.
        splits: our name of a split to theirs; only ``all`` means that it has no finer ones.
        config: part of the repository, if it has several.
        columns: our name of a column to theirs, where the row type does not know theirs.
        labels: names of integer labels.
        task: the MTEB task whose metadata pins the revision.
    """

    repo: str
    splits: dict[str, str]
    config: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    task: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """A split as the hub has it.

    Attributes:
        records: its rows, not yet validated; the line is the row.
        revision: a commit, or ``main`` where nothing pins one.
    """

    records: list[Record]
    revision: str


def fetch(source: HubSource, split: str, *, name: str) -> Snapshot:
    """Download a split, or take it from the cache of ``datasets`` when the hub is out of reach.

    Args:
        source: the repository.
        split: a key of ``source.splits``.
        name: what the user asked for, to begin a message with.

    Raises:
        TertiumError: neither way works; within seconds, for the hub is asked once.
    """
    purpose = f"{name} is in no local folder, and loading it from the hub"
    require("train", purpose=purpose, packages=("datasets",))
    import datasets

    reached = online()
    revision = revision_of(source) if reached else None
    try:
        with _without_retries(enabled=not reached):
            table = datasets.load_dataset(
                source.repo, source.config, split=source.splits[split], revision=revision
            )
    except Exception as error:  # it raises whatever its many parts raise
        reason = f"{error}" if reached else "the hub is out of reach and it is not in the cache"
        raise TertiumError(
            f"{name} is in no local folder, and {source.repo} could not be loaded: {reason}. "
            "Name a folder that holds the set with --data or TERTIUM_DATA."
        ) from error
    rows = (_renamed(row, source) for row in table)
    records = [Record(line, row) for line, row in enumerate(rows, 1)]
    return Snapshot(records, revision or _cached_revision(table))


def revision_of(source: HubSource) -> str:
    """The commit that the installed mteb package pins, else ``main``."""
    if source.task is None or importlib.util.find_spec("mteb") is None:
        return "main"
    import mteb

    pinned = mteb.get_task(source.task).metadata.dataset
    return str(pinned["revision"]) if pinned["path"] == source.repo else "main"


def _renamed(row: dict[str, Any], source: HubSource) -> dict[str, Any]:
    values = {**row, **{ours: row[theirs] for ours, theirs in source.columns.items()}}
    if source.labels:
        values["label"] = source.labels[values["label"]]
    return values


def online() -> bool:
    """Ask the hub for a sign of life, once: its own client would try again for minutes."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PROBE_SECONDS)
    except Exception:  # which HTTP client it uses, and so which errors, changes with its version
        return False
    return True


@contextmanager
def _without_retries(*, enabled: bool) -> Iterator[None]:
    """Let ``datasets`` go straight to its cache."""
    import datasets

    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = enabled or before
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _cached_revision(table: Any) -> str:
    """The cache keeps each commit in a folder of its name."""
    files = table.cache_files
    return Path(files[0]["filename"]).parent.name if files else "unknown"
