"""C-STS, whose authors share it encrypted: plain text exists in the cache folder only."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tertium.errors import TertiumError
from tertium.files import cache_folder, sha256

__all__ = ["BUNDLE", "HOW_TO_GET", "PASSWORD", "find_file"]

BUNDLE = "csts.tar.gz.enc"
PASSWORD = "TERTIUM_CSTS_PASSWORD"  # the name of a variable, not a password
MEMBERS = tuple(f"csts_{split}.csv" for split in ("train", "validation", "test"))

HOW_TO_GET = (
    "Get C-STS from its authors (github.com/princeton-nlp/c-sts) and put csts_train.csv, "
    f"csts_validation.csv and csts_test.csv, or {BUNDLE}, into the data folder"
)
_CIPHER = ("-aes-256-cbc", "-pbkdf2", "-md", "sha256", "-iter", "10000")
_LARGEST = 64 << 20  # bytes of a bundle, and of its archive; C-STS has 3 MB


def find_file(folder: Path, split: str) -> Path | None:
    """The CSV of a split: the user's own in ``folder``, else decrypted from the bundle there.

    Args:
        folder: holds ``csts_{split}.csv``, or the encrypted bundle; nothing in it is ever run.
        split: train, validation or test.

    Raises:
        TertiumError: there is a bundle that cannot be decrypted, or that holds something else.
    """
    name = f"csts_{split}.csv"
    if (folder / name).is_file():
        return folder / name
    if not (folder / BUNDLE).is_file():
        return None
    return _unpacked(folder / BUNDLE) / name


def _unpacked(bundle: Path) -> Path:
    """The folder with the bundle's plain text, made once per content of the bundle."""
    if bundle.stat().st_size > _LARGEST:
        raise _unexpected(bundle, f"it is larger than {_LARGEST >> 20} MB")
    private = cache_folder() / "csts"
    target = private / sha256(bundle)
    if target.is_dir():
        return target
    files = _read_archive(bundle, _decrypt(bundle))
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)
    with _whole_or_absent(target) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return target


@contextmanager
def _whole_or_absent(target: Path) -> Iterator[Path]:
    """A private folder beside ``target`` that takes its name only on success."""
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpacking-"))
    try:
        yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _decrypt(bundle: Path) -> bytes:
    if not os.environ.get(PASSWORD):
        raise TertiumError(f"{bundle} is encrypted. Set {PASSWORD} to its password.")
    source = ["-pass", f"env:{PASSWORD}", "-in", str(bundle)]
    command = ["openssl", "enc", "-d", *_CIPHER, *source]
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    except FileNotFoundError as error:
        raise TertiumError("Decrypting C-STS needs openssl. Install it.") from error
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip().partition("\n")[0]
        raise TertiumError(
            f"{bundle} could not be decrypted ({reason}). Check {PASSWORD}."
        ) from error


def _read_archive(bundle: Path, compressed: bytes) -> dict[str, bytes]:
    """The expected files of the archive by name; anything else in it is an error."""
    files: dict[str, bytes] = {}
    try:
        with gzip.open(io.BytesIO(compressed)) as stream:
            plain = stream.read(_LARGEST + 1)
        if len(plain) > _LARGEST:
            raise _unexpected(bundle, f"it unpacks to more than {_LARGEST >> 20} MB")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isdir() and name == ".":
                    continue
                # A sparse file may claim any size; a link could lead anywhere.
                whole = member.isreg() and not member.issparse()
                content = archive.extractfile(member) if whole else None
                if content is None or name not in MEMBERS or name in files:
                    raise _unexpected(bundle, f"it holds {member.name!r}")
                files[name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise TertiumError(
            f"{bundle} holds no archive ({error}). Check {PASSWORD}, or fetch the bundle again."
        ) from error
    missing = [name for name in MEMBERS if name not in files]
    if missing:
        raise _unexpected(bundle, f"it lacks {', '.join(missing)}")
    return files


def _unexpected(bundle: Path, what: str) -> TertiumError:
    return TertiumError(f"{bundle} is not the C-STS bundle: {what}. {HOW_TO_GET}.")
