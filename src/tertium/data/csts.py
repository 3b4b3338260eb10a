"""C-STS, which its authors share encrypted: plain text exists only in the cache folder."""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tertium.data.readers import Scale, scan_rows
from tertium.data.rows import ConditionalPair, NewLabel
from tertium.data.tables import DataError, Problem
from tertium.errors import TertiumError
from tertium.files import cache_folder, sha256

__all__ = ["BUNDLE", "PASSWORD", "PUBLISHED", "find_file", "relabelled"]

BUNDLE = "csts.tar.gz.enc"
PASSWORD = "TERTIUM_CSTS_PASSWORD"  # the name of a variable, not a password
PASSWORD_FILE = "csts.password"  # beside the bundle, where the variable is not set
_CIPHER = ("-aes-256-cbc", "-pbkdf2", "-md", "sha256", "-iter", "10000")
_LARGEST = 64 << 20  # bytes of a bundle, and of its archive; C-STS has 3 MB


class Published(NamedTuple):
    """C-STS as published by a group of authors: a file per split, or all of them in a bundle.

    Attributes:
        files: name of each split's file.
        bundle: name of the encrypted archive that can replace the files.
        members: files in the archive.
        authors: its authors, for messages.
    """

    files: dict[str, str]
    bundle: str
    members: tuple[str, ...]
    authors: str

    @property
    def how_to_get(self) -> str:
        """How to get it if it is missing."""
        *some, last = self.files.values()
        names = f"{', '.join(some)} and {last}" if some else last
        return f"Get {self.authors} and put {names}, or {self.bundle}, into the data folder"


_ORIGINAL = {split: f"csts_{split}.csv" for split in ("train", "validation", "test")}
_REVISED = {split: f"csts_{split}_reannotated.csv" for split in ("train", "validation")}
_RELABELLED = {"validation": "csts-val-reannotated.tsv"}
_REANNOTATED = ("csts-reannotated.tar.gz.enc", (*_REVISED.values(), *_RELABELLED.values()))
PUBLISHED = {
    "C-STS": Published(
        _ORIGINAL,
        BUNDLE,
        tuple(_ORIGINAL.values()),
        "C-STS from its authors (github.com/princeton-nlp/c-sts)",
    ),
    "C-STS-revised": Published(
        _REVISED,
        *_REANNOTATED,
        "the revised C-STS from its authors (github.com/LivNLP/CSTS-reannotation)",
    ),
    "C-STS-relabelled": Published(
        _RELABELLED,
        *_REANNOTATED,
        "the careful labels of C-STS from their authors (github.com/brandeis-llc/L-CSTS)",
    ),
}


def find_file(folder: Path, split: str, name: str = "C-STS") -> Path | None:
    """The file of a split: in ``folder``, or else decrypted from the bundle there.

    Args:
        folder: folder with the file or the encrypted bundle; nothing in it is ever run.
        split: train, validation or test.
        name: key of ``PUBLISHED``.

    Raises:
        TertiumError: the bundle cannot be decrypted, or contains something else.
    """
    published = PUBLISHED[name]
    file = published.files[split]
    if (folder / file).is_file():
        return folder / file
    if not (folder / published.bundle).is_file():
        return None
    return _unpacked(folder / published.bundle, published) / file


def relabelled(
    rows: Sequence[ConditionalPair], file: Path, *, scale: Scale
) -> list[ConditionalPair]:
    """The rows of C-STS's validation part with the careful labels of Tu et al. (2024).

    Args:
        rows: the split in its own order; a ``uid`` is the position of a row, from 0.
        file: columns ``uid`` and ``reannotated-label``, -1 if a row is invalid or withheld.
        scale: lowest and highest label.

    Raises:
        DataError: a uid is unknown, repeated or missing.
    """
    found: dict[int, ConditionalPair] = {}
    for item in scan_rows(file, NewLabel, scale=scale):
        if isinstance(item, Problem):
            raise DataError([item])
        line, new = item
        if not 0 <= new.uid < len(rows):
            remedy = f"C-STS's validation part has rows 0 to {len(rows) - 1}; get the file again"
        elif new.uid in found:
            remedy = "this row has a label already; remove one of both lines"
        else:
            found[new.uid] = rows[new.uid].model_copy(update={"label": new.label})
            continue
        raise DataError([Problem(str(file), line, "uid", str(new.uid), remedy)])
    missing = next((uid for uid in range(len(rows)) if uid not in found), None)
    if missing is not None:
        remedy = f"no line for this row, and {len(rows) - len(found):,} are missing; get it again"
        raise DataError([Problem(str(file), 0, "uid", str(missing), remedy)])
    return [found[uid] for uid in range(len(rows))]


def _unpacked(bundle: Path, published: Published) -> Path:
    """The folder with the bundle's plain text, created once per content of the bundle."""
    if bundle.stat().st_size > _LARGEST:
        raise _unexpected(bundle, published, f"it is larger than {_LARGEST >> 20} MB")
    private = cache_folder() / "csts"
    target = private / sha256(bundle)
    if target.is_dir():
        return target
    files = _read_archive(bundle, _decrypt(bundle, published), published)
    private.mkdir(parents=True, exist_ok=True)
    private.chmod(0o700)
    with _whole_or_absent(target) as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return target


@contextmanager
def _whole_or_absent(target: Path) -> Iterator[Path]:
    """A private folder beside ``target`` that is renamed to it only on success."""
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


def _decrypt(bundle: Path, published: Published) -> bytes:
    beside = bundle.with_name(PASSWORD_FILE)
    password = os.fsencode(os.environ.get(PASSWORD, "")) or (
        beside.is_file() and beside.read_bytes()
    )
    if not password:
        raise TertiumError(
            f"{bundle} is encrypted. Set {PASSWORD} to its password, or write the password to "
            f"{PASSWORD_FILE} beside it."
        )
    command = ["openssl", "enc", "-d", *_CIPHER, "-pass", "stdin", "-in", str(bundle)]
    try:
        return subprocess.run(
            command, input=password, check=True, capture_output=True, timeout=120
        ).stdout
    except FileNotFoundError as error:
        raise TertiumError("Decrypting C-STS needs openssl. Install it.") from error
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", None) or str(error).encode()
        reason = output.decode(errors="replace").strip().partition("\n")[0]
        raise _damaged(bundle, published, f"could not be decrypted ({reason})") from error


def _read_archive(bundle: Path, compressed: bytes, published: Published) -> dict[str, bytes]:
    """The expected files of the archive by name; raises if it contains anything else."""
    files: dict[str, bytes] = {}
    try:
        with gzip.open(io.BytesIO(compressed)) as stream:
            plain = stream.read(_LARGEST + 1)
        if len(plain) > _LARGEST:
            raise _unexpected(bundle, published, f"it unpacks to more than {_LARGEST >> 20} MB")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isdir() and name == ".":
                    continue
                # A sparse file may claim any size; a link could lead anywhere.
                whole = member.isreg() and not member.issparse()
                content = archive.extractfile(member) if whole else None
                if content is None or name not in published.members or name in files:
                    raise _unexpected(bundle, published, f"it holds {member.name!r}")
                files[name] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise _damaged(bundle, published, f"holds no archive ({error})") from error
    missing = [name for name in published.members if name not in files]
    if missing:
        raise _unexpected(bundle, published, f"it lacks {', '.join(missing)}")
    return files


def _damaged(bundle: Path, published: Published, what: str) -> TertiumError:
    return TertiumError(
        f"{bundle} {what}. Check {PASSWORD} or {PASSWORD_FILE}; if it is right, the bundle is "
        "damaged. "
        f"{published.how_to_get}."
    )


def _unexpected(bundle: Path, published: Published, what: str) -> TertiumError:
    return TertiumError(f"{bundle} is not the C-STS bundle: {what}. {published.how_to_get}.")
