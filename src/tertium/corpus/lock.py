"""One writer at a time, and nothing left behind of one that did not finish."""

import contextlib
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from tertium.corpus.manifest import MANIFEST, IndexManifest, read_index_manifest
from tertium.errors import TertiumError, TertiumWarning
from tertium.files import check_new_folder, report_full_disk

__all__ = ["check_new_index", "clean", "new_index", "writing"]

LOCK = ".lock"
_OURS = (LOCK, f".{MANIFEST}.*", "segment-*", "graph-*")
_PATIENCE = 2  # seconds before a waiting process says so


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[IndexManifest]:
    """Have the index in ``folder`` to oneself; gives its manifest.

    What an earlier writer was killed at is removed first, and what this one leaves unfinished last.
    """
    read_index_manifest(folder)
    with _locked(folder):
        clean(folder, read_index_manifest(folder))
        try:
            with report_full_disk(folder):
                yield read_index_manifest(folder)
        finally:
            clean(folder, read_index_manifest(folder))


@contextlib.contextmanager
def new_index(folder: Path) -> Iterator[None]:
    """Have a new index folder to oneself; it goes again if no index comes to be there."""
    check_new_index(folder)
    existed = folder.exists()
    with _locked(folder):
        check_new_index(folder)  # another process may have been faster
        clean(folder, None)
        try:
            with report_full_disk(folder):
                yield
        finally:
            if (folder / MANIFEST).exists():
                clean(folder, read_index_manifest(folder))
            else:
                clean(folder, None)
                (folder / LOCK).unlink(missing_ok=True)
                if not existed:
                    folder.rmdir()


def clean(folder: Path, manifest: IndexManifest | None) -> None:
    """Remove files of ours that the manifest does not name."""
    named = {name.split("/")[0] for name in manifest.files()} if manifest else set()
    for pattern in _OURS[1:]:
        for path in folder.glob(pattern):
            if path.name in named:
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def check_new_index(folder: Path) -> None:
    """Raise unless the folder is new, empty, or holds only what a killed build has left."""
    if (folder / MANIFEST).exists():
        raise TertiumError(
            f"{folder} holds an index already. Add to it: tertium index add {folder} FILE, or name "
            "another folder."
        )
    ours = {path for pattern in _OURS for path in folder.glob(pattern)}
    if not folder.is_dir() or any(path not in ours for path in folder.iterdir()):
        check_new_folder(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=_PATIENCE)
        except Timeout:
            warnings.warn(
                f"Another process is writing to {folder}; waiting for it.",
                TertiumWarning,
                stacklevel=4,
            )
            lock.acquire()
    except OSError as error:
        raise TertiumError(
            f"{folder} cannot be written to ({error.strerror or error}). Choose another folder."
        ) from error
    with contextlib.ExitStack() as stack:
        stack.callback(lock.release)
        yield
