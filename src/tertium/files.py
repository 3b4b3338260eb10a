"""Atomic writes, output checks, hashes, and the cache folder."""

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
    "write_text",
]


_NO_SPACE = os.strerror(errno.ENOSPC)
_NOT_SUPPORTED = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # by this system or file system
_BLOCK = 1 << 20
_DIGITS = 2 * hashlib.sha256().digest_size
_LARGE = 1 << 20  # bytes from which a hash is worth caching
_SETTLED = 2.0  # coarsest resolution of modification times on any file system, in seconds


def cache_folder() -> Path:
    """Where tertium keeps what it can rebuild: ``TERTIUM_CACHE``, else the user's cache."""
    explicit = os.environ.get("TERTIUM_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tertium"


def writable_cache() -> Path:
    """The cache folder if it is writable, else a temporary one in its place.

    The temporary folder is shared with child processes and removed when this process ends.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return folder
    except OSError as error:
        trouble = f"The cache folder {folder} is not writable ({error.strerror or error})"
    remedy = "Set TERTIUM_CACHE to a writable folder."
    try:
        temporary = Path(tempfile.mkdtemp(prefix="tertium-cache-"))
    except OSError as error:
        raise TertiumError(f"{trouble}, nor is a temporary one. {remedy}") from error
    warnings.warn(
        f"{trouble}; using {temporary}, which is removed when this process ends. {remedy}",
        TertiumWarning,
        stacklevel=3,
    )
    os.environ["TERTIUM_CACHE"] = str(temporary)
    atexit.register(_remove, temporary, os.getpid())
    return temporary


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def atomic_path(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside ``path`` to write to; it is renamed only on success.

    Args:
        path: the final name.
        durable: flush it to disk, so that it survives a power failure.
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


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a UTF-8 file whole or not at all; see :func:`atomic_path`."""
    with atomic_path(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_folder(folder: Path, *, last: str) -> Iterator[Path]:
    """Yield a temporary folder to fill; its files appear in ``folder`` only on success.

    An existing folder keeps its other files. Files are replaced one at a time; ``last``, whose
    presence means that the folder is complete, is removed first and written last.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with report_full_disk(folder):
            yield temporary
        for path in (temporary, *temporary.rglob("*")):  # some writers make files private
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
    """Raise unless ``output`` has one of the ``endings``."""
    if output.suffix.lower() not in endings:
        *others, last = endings
        known = f"{', '.join(others)} or {last}" if others else last
        raise TertiumError(f"{output}: the output must be a {known} file.")


@contextlib.contextmanager
def report_full_disk(path: Path) -> Iterator[None]:
    """Turn any "no space left" error into a :class:`DiskFullError` that names ``path``."""
    try:
        yield
    except TertiumError:
        raise
    except Exception as error:  # libraries raise errors of their own
        code = error.errno if isinstance(error, OSError) else None
        if code not in (errno.ENOSPC, errno.EDQUOT) and _NO_SPACE not in str(error):
            raise
        raise DiskFullError(
            f"{path}: no space left on this disk. Free some space, or choose another disk."
        ) from error


def new_matrix(path: Path, dtype: "DTypeLike", shape: tuple[int, int]) -> "np.memmap[Any, Any]":
    """A new ``.npy`` file of zeros, memory-mapped for writing; ``shape`` must not be empty.

    Disk space is reserved up front, so that a full disk raises here instead of killing the process
    with a signal when a page is written.
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
    """Allocate all blocks of a sparse file."""
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
            for start in range(len(kept), size, _BLOCK):  # the rest is a hole, which reads as zeros
                stream.write(bytes(min(_BLOCK, size - start)))
            stream.flush()
            os.fsync(stream.fileno())


def check_new_folder(folder: Path) -> None:
    """Raise if ``folder`` exists and is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TertiumError(
            f"{folder} exists and is not empty. Choose another folder, or remove it."
        )


def existing_file(path: Path) -> Path:
    """``path``, if it is a regular file, which can be read more than once; else raise."""
    if path.is_file():
        return path
    if path.exists() and not path.is_dir():
        raise TertiumError(
            f"{path} is a pipe or a device, which cannot be read twice. Save it to a file first."
        )
    what = "is a folder, not a file" if path.is_dir() else "no such file"
    raise TertiumError(f"{path}: {what}. Check the path.")


def check_outputs(source: Path | None, *outputs: Path | None) -> None:
    """Raise if an output is the input or another output, or cannot be written.

    Args:
        source: the input, if it is a file.
        outputs: files to write; None for those not requested. Parent folders need not exist yet.
    """
    known = [] if source is None else [source.resolve()]
    for output in filter(None, outputs):
        if output.resolve() in known:
            raise TertiumError(
                f"{output} is named twice: one file would overwrite the other. Choose another "
                "output file."
            )
        known.append(output.resolve())
        _check_place(output)


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise TertiumError(f"{path} is a folder. Give a file name for the output.")
    try:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        tempfile.TemporaryFile(dir=above).close()
    except OSError as error:
        raise TertiumError(
            f"{path} cannot be written ({error.strerror}). Choose another output file."
        ) from error


def sync(path: Path) -> None:
    """Flush a file or folder to disk; not every system can do so for a folder."""
    with contextlib.suppress(OSError) if path.is_dir() else contextlib.nullcontext():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """Hex digest of a file, cached in this process while size and time stay the same."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


def remembered_sha256(path: Path) -> str:
    """Hex digest of a file that seldom changes, such as a model's weights, cached on disk."""
    return remembered_digest(path, sha256, what="sha256")


def remembered_digest(path: Path, compute: Callable[[Path], str], *, what: str) -> str:
    """The result of ``compute`` for a file that seldom changes.

    Results for large files are kept in the cache folder and used while size, time and inode of the
    file stay the same. A cache entry that is damaged or cannot be written is recomputed.

    Args:
        path: the file.
        compute: returns a sha256 in hex digits.
        what: distinguishes different digests of one file.
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
    # A file that was just written could change again without its time changing.
    if _mark(path) == mark and abs(time.time() - mark[1] / 1e9) > _SETTLED:
        with contextlib.suppress(OSError):
            write_text(record, json.dumps({"path": place, "mark": mark, what: digest}))
    return digest


def remembered_value(key: str, compute: Callable[[], str]) -> str:
    """The result of ``compute``, a sha256 that depends only on the sha256 ``key``."""
    record = cache_folder() / "hashes" / f"{key}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = str(json.loads(record.read_text())["sha256"])
        if len(known) == _DIGITS:
            return known
    value = compute()
    with contextlib.suppress(OSError):
        write_text(record, json.dumps({"sha256": value}))
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
