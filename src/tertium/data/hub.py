"""Benchmark sets from the Hugging Face hub, if there is no local folder."""

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
    """A repository with some splits of a set.

    Attributes:
        repo: name of the repository.
        splits: their names of splits by ours; only ``all`` if the repository has no finer ones.
        config: configuration in the repository, if it has several.
        columns: their names of columns by ours, for those that the row type does not know.
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
    """A split as downloaded.

    Attributes:
        records: its rows before validation, with row numbers as lines.
        revision: a commit, or ``main`` if none is pinned.
    """

    records: list[Record]
    revision: str


def fetch(source: HubSource, split: str, *, name: str) -> Snapshot:
    """Download a split, or read it from the cache of ``datasets`` if the hub cannot be reached.

    Args:
        source: the repository.
        split: a key of ``source.splits``.
        name: the set's name in messages.

    Raises:
        TertiumError: neither works; raised within seconds, since the hub is tried only once.
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
    except Exception as error:  # it raises errors of many libraries
        reason = f"{error}" if reached else "the hub is out of reach and it is not in the cache"
        raise TertiumError(
            f"{name} is in no local folder, and {source.repo} could not be loaded: {reason}. "
            "Name a folder that holds the set with --data or TERTIUM_DATA."
        ) from error
    rows = (_renamed(row, source) for row in table)
    records = [Record(line, row) for line, row in enumerate(rows, 1)]
    return Snapshot(records, revision or _cached_revision(table))


def revision_of(source: HubSource) -> str:
    """The commit pinned by the installed mteb package, else ``main``."""
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
    """Whether the hub responds; tried once, since its own client would retry for minutes."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PROBE_SECONDS)
    except Exception:  # the HTTP client, and so the kind of error, depends on its version
        return False
    return True


@contextmanager
def _without_retries(*, enabled: bool) -> Iterator[None]:
    """Let ``datasets`` read directly from its cache."""
    import datasets

    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = enabled or before
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


def _cached_revision(table: Any) -> str:
    """The commit of a cached table, which is the name of its folder."""
    files = table.cache_files
    return Path(files[0]["filename"]).parent.name if files else "unknown"
