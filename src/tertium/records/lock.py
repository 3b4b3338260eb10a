"""A file lock that records who holds it."""

import contextlib
import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tertium.errors import TertiumError, TertiumWarning

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = ["InUseError", "lock"]

_PATIENCE = 2.0  # seconds before a waiting process says so


class InUseError(TertiumError):
    """Another process holds the lock."""


@contextlib.contextmanager
def lock(
    path: Path, *, protects: Path | None = None, wait: float | None = None, remove: bool = False
) -> Iterator[None]:
    """Hold the file ``path`` for the duration; the system releases it if this process is killed.

    Args:
        path: the lock file; parent folders are created.
        protects: what the user knows it by, for messages. With it, a long wait is announced.
        wait: seconds to wait for the process that holds it (default: until it ends).
        remove: delete the file afterwards, and any empty folders that were created for it; for a
            lock that nobody waits for.

    Raises:
        InUseError: another process holds it.
        TertiumError: ``protects`` is not writable.
    """
    from filelock import FileLock  # slow to import, and most processes lock nothing

    created = [parent for parent in path.parents if not parent.exists()]
    held = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _acquire(held, path, protects, wait)
    except OSError as error:
        if protects is None:
            raise
        raise TertiumError(
            f"{protects} is not writable ({error.strerror or error}). Choose another folder."
        ) from error
    try:
        with contextlib.suppress(OSError):  # a full disk is reported by the next write
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
            for parent in created:
                with contextlib.suppress(OSError):  # not empty
                    parent.rmdir()
        else:
            with contextlib.suppress(OSError):  # its folder was deleted
                os.truncate(path, 0)
        held.release()


def _acquire(held: "FileLock", path: Path, protects: Path | None, wait: float | None) -> None:
    from filelock import Timeout

    patience = -1.0 if protects is None else _PATIENCE
    try:
        held.acquire(timeout=patience if wait is None else wait)
    except Timeout:
        use = f"{protects or path} is in use by {_holder(path)}"
        if wait is not None:
            raise InUseError(f"{use}. Wait for it to end, or choose another folder.") from None
        warnings.warn(f"{use}; waiting for it.", TertiumWarning, stacklevel=5)
        held.acquire(timeout=-1)


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):  # not every system lets a locked file be read
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
    return "another process"
