"""C-STS, whose authors share it encrypted: plain text exists in the cache folder only."""

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
SCRIPT = "extract-csts"
PASSWORD = "TERTIUM_CSTS_PASSWORD"  # the name of a variable; its value is the authors' to tell
SPLITS = ("train", "validation", "test")

HOW_TO_GET = (
    "Get C-STS from its authors (github.com/princeton-nlp/c-sts) and put csts_train.csv, "
    f"csts_validation.csv and csts_test.csv, or {BUNDLE}, into the data folder"
)


def find_file(folder: Path, split: str) -> Path | None:
    """The CSV of a split: the user's own in ``folder``, else unpacked from the bundle there.

    Args:
        folder: holds ``csts_{split}.csv``, or the encrypted bundle and its script.
        split: train, validation or test.

    Raises:
        TertiumError: there is a bundle, and it could not be unpacked.
    """
    name = f"csts_{split}.csv"
    if (folder / name).is_file():
        return folder / name
    if not (folder / BUNDLE).is_file():
        return None
    return _unpacked(folder / BUNDLE) / name


def _unpacked(bundle: Path) -> Path:
    """The folder with the bundle's plain text, made once per content of the bundle."""
    private = cache_folder() / "csts"
    target = private / sha256(bundle)
    if target.is_dir():
        return target
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)
    script = bundle.with_name(SCRIPT)
    with _whole_or_absent(target) as folder:
        if script.is_file():
            _run(["bash", str(script.resolve()), str(folder.resolve())], remedy=HOW_TO_GET)
        else:
            _decrypt(bundle, folder)
        missing = [split for split in SPLITS if not (folder / f"csts_{split}.csv").is_file()]
        if missing:
            raise TertiumError(f"{bundle}: lacks {', '.join(missing)}. {HOW_TO_GET}.")
    return target


@contextmanager
def _whole_or_absent(target: Path) -> Iterator[Path]:
    """A private folder beside ``target`` that takes its name only on success."""
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpacking-"))
    try:
        yield temporary
        temporary.chmod(0o700)  # the archive may have set another mode
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _decrypt(bundle: Path, folder: Path) -> None:
    if not os.environ.get(PASSWORD):
        raise TertiumError(
            f"{bundle} is encrypted, and there is no {SCRIPT} beside it. "
            f"Set {PASSWORD} to the password that its authors give."
        )
    cipher = ["openssl", "enc", "-d", "-aes-256-cbc", "-pbkdf2"]
    command = [*cipher, "-pass", f"env:{PASSWORD}", "-in", str(bundle)]
    plain = _run(command, remedy=f"Check {PASSWORD}")
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:gz") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise TertiumError(f"{bundle} holds no archive ({error}). {HOW_TO_GET}.") from error


def _run(command: list[str], *, remedy: str) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    except FileNotFoundError as error:
        raise TertiumError(f"Unpacking C-STS needs {command[0]}. Install it.") from error
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip().partition("\n")[0]
        raise TertiumError(f"C-STS could not be unpacked ({reason}). {remedy}.") from error
