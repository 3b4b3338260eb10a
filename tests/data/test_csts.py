import io
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from tertium.data import csts
from tertium.errors import TertiumError

from .conftest import Write

SECRET = "made up for this test"
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(csts.PASSWORD, raising=False)
    return tmp_path / "cache" / "csts"


@pytest.fixture
def bundle(write: Write) -> Path:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for split in csts.SPLITS:
            content = f"sentence1,sentence2,condition,label\nA,B,{split},3\n".encode()
            entry = tarfile.TarInfo(f"csts_{split}.csv")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    command = ["openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-pass", f"pass:{SECRET}"]
    encrypted = subprocess.run(command, input=stream.getvalue(), capture_output=True, check=True)
    return write(f"data/{csts.BUNDLE}", encrypted.stdout)


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
    monkeypatch.setenv(csts.PASSWORD, SECRET)
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
    with pytest.raises(TertiumError, match=f"Set {csts.PASSWORD} to the password"):
        csts.find_file(bundle.parent, "test")
    monkeypatch.setenv(csts.PASSWORD, "wrong")
    with pytest.raises(TertiumError, match="C-STS"):
        csts.find_file(bundle.parent, "test")
    assert list(cache.iterdir()) == []


def test_without_openssl_the_message_says_so(
    write: Write, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write(f"data/{csts.BUNDLE}", "x")
    monkeypatch.setenv(csts.PASSWORD, SECRET)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(TertiumError, match="needs openssl"):
        csts.find_file(bundle.parent, "test")


def test_the_script_beside_the_bundle_is_used(write: Write, cache: Path) -> None:
    lines = [f"echo sentence1 > $1/csts_{split}.csv" for split in csts.SPLITS]
    write(f"data/{csts.SCRIPT}", "\n".join(lines))
    path = csts.find_file(write(f"data/{csts.BUNDLE}", "x").parent, "train")
    assert path is not None and path.read_text() == "sentence1\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [("echo no luck >&2; exit 3", "could not be unpacked .no luck"), ("true", "lacks train, val")],
)
def test_a_script_that_fails_is_reported(
    script: str, message: str, write: Write, cache: Path
) -> None:
    write(f"data/{csts.SCRIPT}", script)
    with pytest.raises(TertiumError, match=message):
        csts.find_file(write(f"data/{csts.BUNDLE}", "x").parent, "train")
    assert list(cache.iterdir()) == []


def test_an_unpacking_that_lost_the_race_gives_way(write: Write, cache: Path) -> None:
    lines = ["mkdir -p $(dirname $1)/$(sha256sum $(dirname $0)/csts.tar.gz.enc | cut -c1-64)"]
    lines += ["echo theirs > $_/csts_train.csv"]
    lines += [f"echo ours > $1/csts_{split}.csv" for split in csts.SPLITS]
    write(f"data/{csts.SCRIPT}", "\n".join(lines))
    path = csts.find_file(write(f"data/{csts.BUNDLE}", "x").parent, "train")
    assert path is not None and path.read_text() == "theirs\n"
    assert len(list(cache.iterdir())) == 1
