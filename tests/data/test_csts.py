import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tertium.data import csts
from tertium.errors import TertiumError
from tertium.files import sha256

from .conftest import Write

SECRET = "made up for this test"
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(csts.PASSWORD, raising=False)
    return tmp_path / "cache" / "csts"


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"sentence1,sentence2,condition,label\n") -> Member:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


def splits() -> list[Member]:
    row = "sentence1,sentence2,condition,label\nA,B,{},3\n"
    return [member(f"./{name}", row.format(name).encode()) for name in csts.MEMBERS]


@pytest.fixture
def pack(write: Write, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Member]], Path]:
    """Write an encrypted bundle of these members, and set its password."""

    def packed(members: Sequence[Member]) -> Path:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for entry, content in members:
                archive.addfile(entry, io.BytesIO(content))
        command = ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-pass", f"pass:{SECRET}"]
        done = subprocess.run(command, input=stream.getvalue(), capture_output=True, check=True)
        monkeypatch.setenv(csts.PASSWORD, SECRET)
        return write(f"data/{csts.BUNDLE}", done.stdout)

    return packed


@pytest.fixture
def bundle(cache: Path, pack: Callable[[Sequence[Member]], Path]) -> Path:
    return pack([(directory(), b""), *splits()])


def directory() -> tarfile.TarInfo:
    entry = tarfile.TarInfo("./")
    entry.type = tarfile.DIRTYPE
    return entry


def test_the_users_own_files_come_first(write: Write, cache: Path) -> None:
    own = write("data/csts_test.csv", "sentence1,sentence2,condition,label\n")
    write(f"data/{csts.BUNDLE}", "never opened")
    assert csts.find_file(own.parent, "test") == own
    assert not cache.exists()


def test_without_files_and_bundle_there_is_nothing(tmp_path: Path) -> None:
    assert csts.find_file(tmp_path, "test") is None


@needs_openssl
def test_the_bundle_is_unpacked_into_the_cache_alone(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = csts.find_file(bundle.parent, "validation")
    assert path is not None and "validation" in path.read_text()
    assert path.parent.parent == cache
    assert [entry.name for entry in bundle.parent.iterdir()] == [csts.BUNDLE]
    assert [entry.name for entry in cache.iterdir()] == [path.parent.name]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (cache, path.parent)} == {0o700}
    monkeypatch.delenv(csts.PASSWORD)
    assert csts.find_file(bundle.parent, "test") == path.with_name("csts_test.csv")


@needs_openssl
def test_a_wrong_or_missing_password_leaves_nothing_behind(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(csts.PASSWORD)
    with pytest.raises(TertiumError, match=f"is encrypted. Set {csts.PASSWORD} to its password"):
        csts.find_file(bundle.parent, "test")
    monkeypatch.setenv(csts.PASSWORD, "wrong")
    with pytest.raises(TertiumError, match=f"Check {csts.PASSWORD}"):
        csts.find_file(bundle.parent, "test")
    assert not cache.exists()


def test_without_openssl_the_message_says_so(
    write: Write, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write(f"data/{csts.BUNDLE}", "x")
    monkeypatch.setenv(csts.PASSWORD, SECRET)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TertiumError, match="needs openssl"):
        csts.find_file(bundle.parent, "test")


@needs_openssl
def test_nothing_in_the_data_folder_is_ever_run(bundle: Path, cache: Path) -> None:
    script = bundle.with_name("extract-csts")
    script.write_text(f"#!/bin/sh\ntouch {bundle.parent}/was-run\n")
    script.chmod(0o755)
    path = csts.find_file(bundle.parent, "train")
    assert path is not None and "csts_train.csv" in path.read_text()
    assert {entry.name for entry in bundle.parent.iterdir()} == {csts.BUNDLE, script.name}


@needs_openssl
@pytest.mark.parametrize(
    ("members", "message"),
    [
        (splits()[:1], "it lacks csts_validation.csv, csts_test.csv"),
        ([*splits(), member("../csts_train.csv")], "it holds '../csts_train.csv'"),
        ([*splits(), member("/tmp/csts_train.csv")], "it holds '.*tmp/csts_train.csv'"),
        ([*splits(), member("extract-csts")], "it holds 'extract-csts'"),
        ([*splits(), member("csts_train.csv")], "it holds 'csts_train.csv'"),  # a second one
        ([link("csts_train.csv", "/etc/passwd")], "it holds 'csts_train.csv'"),
        ([link("csts_train.csv", "/etc/passwd", tarfile.LNKTYPE)], "it holds 'csts_train.csv'"),
        ([link("csts_train.csv", "", tarfile.FIFOTYPE)], "it holds 'csts_train.csv'"),
        ([member("csts_train.csv", bytes(65 << 20))], "it unpacks to more than 64 MB"),
    ],
)
def test_a_bundle_of_anything_else_is_refused(
    members: list[Member],
    message: str,
    pack: Callable[[Sequence[Member]], Path],
    cache: Path,
) -> None:
    folder = pack(members).parent
    with pytest.raises(TertiumError, match=message):
        csts.find_file(folder, "train")
    assert not cache.exists()
    assert [entry.name for entry in folder.iterdir()] == [csts.BUNDLE]


def test_a_bundle_that_is_far_too_large_is_not_read(tmp_path: Path, cache: Path) -> None:
    with (tmp_path / csts.BUNDLE).open("wb") as stream:
        stream.truncate(65 << 20)
    with pytest.raises(TertiumError, match="larger than 64 MB"):
        csts.find_file(tmp_path, "train")


@needs_openssl
def test_an_unpacking_that_lost_the_race_gives_way(
    bundle: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decrypt = csts._decrypt

    def slow(source: Path) -> bytes:
        theirs = cache / sha256(source)
        theirs.mkdir(parents=True)
        (theirs / "csts_train.csv").write_text("theirs")
        return decrypt(source)

    monkeypatch.setattr(csts, "_decrypt", slow)
    path = csts.find_file(bundle.parent, "train")
    assert path is not None and path.read_text() == "theirs"
    assert len(list(cache.iterdir())) == 1


@pytest.mark.data
@needs_openssl
def test_the_real_bundle_is_read(data_folder: Path) -> None:
    if not (data_folder / csts.BUNDLE).is_file() or csts.PASSWORD not in os.environ:
        pytest.skip("no bundle, or no password")
    path = csts.find_file(data_folder, "validation")
    assert path is not None and path.read_bytes().startswith(b"sentence1,sentence2,condition,label")
