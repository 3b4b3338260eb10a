"""Files that are whole or absent: checks, atomic writes, hashes, and the cache folder."""

import atexit
import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tertium.errors import DiskFullError, TertiumError, TertiumWarning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike

__all__ = [
    "atomic_folder",
    "atomic_path",
    "cache_folder",
    "check_ending",
    "check_new_folder",
    "check_outputs",
    "existing_file",
    "new_matrix",
    "remembered_digest",
    "remembered_sha256",
    "remembered_value",
    "report_full_disk",
    "sha256",
    "sync",
    "writable_cache",
]


_NO_SPACE = os.strerror(errno.ENOSPC)
_NOT_SUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # by this system or disk
_BLOCK = 1 << 20
_DIGITS = 2 * hashlib.sha256().digest_size
_LARGE = 1 << 20  # bytes from which a hash is worth a file of its own
_SETTLED = 2.0  # seconds after which a further change of a file shows in its time, on any disk


def cache_folder() -> Path:
    """Where tertium keeps what it can make again: ``TERTIUM_CACHE``, else the user's cache."""
    explicit = os.environ.get("TERTIUM_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tertium"


def writable_cache() -> Path:
    """The cache folder if it can be written to, else a temporary one in its place.

    That one serves this process and those that it starts, and goes with it.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    except OSError as error:
        trouble = f"The cache folder {folder} cannot be written to ({error.strerror or error})"
    remedy = "Set TERTIUM_CACHE to a folder that can be."
    try:
        temporary = Path(tempfile.mkdtemp(prefix="tertium-cache-"))
    except OSError as error:
        raise TertiumError(f"{trouble}, nor can a temporary one. {remedy}") from error
    warnings.warn(
        f"{trouble}: what is made now goes to {temporary} and is lost when this ends. {remedy}",
        TertiumWarning,
        stacklevel=3,
    )
    os.environ["TERTIUM_CACHE"] = str(temporary)
    atexit.register(_remove, temporary, os.getpid())
    return temporary


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not one that was forked from it
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Give a temporary neighbour of ``path`` to write to; it takes the name only on success.

    Args:
        path: where the file goes.
        durable: wait until it is on the disk, so that it survives a loss of power.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        with report_full_disk(path):
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            if durable:
                sync(temporary)
        temporary.replace(path)
        if durable:
            sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, last: str) -> Iterator[Path]:
    """Give a temporary folder to fill; its files appear in ``folder`` only on success.

    A folder that exists keeps what else it holds: file by file is replaced, and ``last``, the one
    that says that all others are there, goes first and comes back last.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with report_full_disk(folder):
            yield temporary
        for path in (temporary, *temporary.rglob("*")):  # some writers keep files to their owner
            path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())
        if not folder.exists():
            temporary.replace(folder)
            return
        (folder / last).unlink(missing_ok=True)
        files = [path.relative_to(temporary) for path in temporary.rglob("*") if path.is_file()]
        for file in sorted(files, key=lambda file: str(file) == last):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (temporary / file).replace(folder / file)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_ending(output: Path, endings: Sequence[str]) -> None:
    """Raise unless the ending of ``output`` says a format that can be written."""
    if output.suffix.lower() not in endings:
        *others, last = endings
        known = f"{', '.join(others)} or {last}" if others else last
        raise TertiumError(f"{output}: this goes to {known} files.")


@contextlib.contextmanager
def report_full_disk(path: Path) -> Iterator[None]:
    """Name ``path`` and the remedy where writing it ends because no space is left."""
    try:
        yield
    except TertiumError:
        raise
    except Exception as error:  # libraries have kinds of their own; only the reason counts
        code = error.errno if isinstance(error, OSError) else None
        if code not in (errno.ENOSPC, errno.EDQUOT) and _NO_SPACE not in str(error):
            raise
        raise DiskFullError(
            f"{path}: no space is left on this disk. Free some, or name another place."
        ) from error


def new_matrix(path: Path, dtype: "DTypeLike", shape: tuple[int, int]) -> "np.memmap[Any, Any]":
    """A new ``.npy`` file of zeros, mapped for writing; ``shape`` is not empty.

    Its space is reserved first: a full disk is an error here, and not a signal that kills the
    process when a page of the map is written.
    """
    import numpy as np

    try:
        matrix = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        _reserve(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return matrix


def _reserve(path: Path) -> None:
    """Have the disk keep all bytes of a file that it has so far only been promised."""
    with path.open("r+b") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
        except (AttributeError, OSError) as error:
            if getattr(error, "errno", errno.ENOSYS) not in _NOT_SUPPORTED:
                raise
            kept = stream.read(_BLOCK)
            stream.seek(0)
            stream.write(kept)
            for start in range(len(kept), size, _BLOCK):  # a hole reads as zeros, and so do these
                stream.write(bytes(min(_BLOCK, size - start)))
            stream.flush()
            os.fsync(stream.fileno())


def check_new_folder(folder: Path) -> None:
    """Raise unless ``folder`` does not exist yet, or is empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TertiumError(f"{folder} exists and is not empty. Name another folder, or remove it.")


def existing_file(path: Path) -> Path:
    """``path``, if it is a file that can be read as often as needed; else raise."""
    if path.is_file():
        return path
    if path.exists() and not path.is_dir():
        raise TertiumError(
            f"{path} is a pipe or a device, which cannot be read twice. Save it to a file first."
        )
    what = "is a folder, not a file" if path.is_dir() else "no such file"
    raise TertiumError(f"{path}: {what}. Check the path.")


def check_outputs(source: Path | None, *outputs: Path | None) -> None:
    """Raise, before any work, if an output is the input or another output, or has no place.

    Args:
        source: the input, if it is a file.
        outputs: files to write, those that are asked for; folders above may still be missing.
    """
    known = [] if source is None else [source.resolve()]
    for output in filter(None, outputs):
        if output.resolve() in known:
            raise TertiumError(
                f"{output} is named twice: one file would take the place of the other. Name "
                "another for the output."
            )
        known.append(output.resolve())
        _check_place(output)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise TertiumError(f"{path} is a folder. Name a file for the output.")
    try:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        tempfile.TemporaryFile(dir=above).close()
    except OSError as error:
        raise TertiumError(
            f"{path} cannot be written ({error.strerror}). Name another place for the output."
        ) from error


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk; not every system can do so for a folder."""
    with contextlib.suppress(OSError) if path.is_dir() else contextlib.nullcontext():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """Hex digest of a file; remembered in this process while size and time stay the same."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


def remembered_sha256(path: Path) -> str:
    """Hex digest of a file that seldom changes, such as the weights of a model."""
    return remembered_digest(path, sha256, what="sha256")


def remembered_digest(path: Path, compute: Callable[[Path], str], *, what: str) -> str:
    """What ``compute`` makes of a file that seldom changes.

    That of a large file is kept in the cache folder, and believed while size, time and inode of the
    file stay the same. A record that is damaged, or cannot be written, costs a reading of the file.

    Args:
        path: the file.
        compute: gives a sha256 in hex digits.
        what: tells digests of one file from each other.
    """
    mark = _mark(path)
    if mark[0] < _LARGE:
        return compute(path)
    place = str(path.resolve())
    key = f"{what} {place}".encode("utf-8", "surrogateescape")
    record = cache_folder() / "hashes" / f"{hashlib.sha256(key).hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = json.loads(record.read_text())
        if (known["path"], known["mark"]) == (place, mark) and len(known[what]) == _DIGITS:
            return str(known[what])
    digest = compute(path)
    # A file that was written just now could change once more within the same tick of its time.
    if _mark(path) == mark and abs(time.time() - mark[1] / 1e9) > _SETTLED:
        with contextlib.suppress(OSError), atomic_path(record) as temporary:
            temporary.write_text(json.dumps({"path": place, "mark": mark, what: digest}))
    return digest


def remembered_value(key: str, compute: Callable[[], str]) -> str:
    """What ``compute`` gives, a sha256 that depends on nothing but the sha256 ``key``."""
    record = cache_folder() / "hashes" / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = str(json.loads(record.read_text())["sha256"])
        if len(known) == _DIGITS:
            return known
    value = compute()
    with contextlib.suppress(OSError), atomic_path(record) as temporary:
        temporary.write_text(json.dumps({"sha256": value}))
    return value


def _mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, modified: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
