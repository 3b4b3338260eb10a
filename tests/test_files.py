import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tertium import files
from tertium.errors import DiskFullError, TertiumError
from tertium.files import (
    atomic_path,
    cache_folder,
    check_outputs,
    existing_file,
    new_matrix,
    remembered_sha256,
    sha256,
    sync,
)


def test_a_file_takes_its_name_only_when_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out.txt"
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent  # a rename needs the same file system
        assert temporary.suffix == ".txt"  # writers choose their format by the ending
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError, match="mine"), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("mine")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_the_users_mask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "out.txt") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640


def test_a_durable_file_and_then_its_folder_are_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def noted(path: Path) -> None:
        sync(path)
        seen.append("folder" if path.is_dir() else path.read_text())

    monkeypatch.setattr("tertium.files.sync", noted)
    with atomic_path(tmp_path / "plain.txt") as temporary:
        temporary.write_text("x")
    assert seen == []
    with atomic_path(tmp_path / "out.txt", durable=True) as temporary:
        temporary.write_text("whole")
    assert seen == ["whole", "folder"]


def test_a_folder_that_cannot_be_brought_to_the_disk_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("os.fsync", refuse)
    sync(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Invalid argument"):
        sync(tmp_path / "file")


def test_an_input_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert existing_file(tmp_path / "file") == tmp_path / "file"
    os.mkfifo(tmp_path / "pipe")
    for name, said in [(".", "is a folder"), ("pipe", "is a pipe"), ("gone", "no such file")]:
        with pytest.raises(TertiumError, match=said):
            existing_file(tmp_path / name)


def test_outputs_have_places_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path("in.txt")
    source.touch()
    Path("link.txt").symlink_to("in.txt")
    check_outputs(source, Path("new/deep/out.txt"), None, Path("report.tsv"))
    check_outputs(None, source)
    for outputs in (["in.txt"], ["./in.txt"], ["link.txt"], ["a.txt", tmp_path / "a.txt"]):
        with pytest.raises(TertiumError, match="is named twice"):
            check_outputs(source, *map(Path, outputs))
    with pytest.raises(TertiumError, match=r"in\.txt/out\.txt cannot be written"):
        check_outputs(None, Path("in.txt/out.txt"))
    with pytest.raises(TertiumError, match="is a folder"):
        check_outputs(None, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "link.txt"]


def test_sha256_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "data"
    for content in (b"one", b"three", b""):
        file.write_bytes(content)
        assert sha256(file) == hashlib.sha256(content).hexdigest()


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large file of some age, and an empty cache."""
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "weights"
    file.write_bytes(bytes(1 << 20))
    os.utime(file, ns=(0, 10**18))
    return file


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file whose hash was computed."""
    seen: list[Path] = []

    def spy(path: Path) -> str:
        seen.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(files, "sha256", spy)
    return seen


def test_a_large_file_is_read_once(weights: Path, readings: list[Path]) -> None:
    expected = hashlib.sha256(weights.read_bytes()).hexdigest()
    link = weights.with_name("link")
    link.symlink_to(weights)
    assert {remembered_sha256(weights), remembered_sha256(weights)} == {expected}
    assert remembered_sha256(link) == expected
    assert readings == [weights]


def test_a_changed_file_is_read_again(weights: Path, readings: list[Path]) -> None:
    before = weights.stat()
    first = remembered_sha256(weights)
    other = weights.with_name("other")  # the same size and time, another inode
    other.write_bytes(b"1" * before.st_size)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(weights)
    second = remembered_sha256(weights)
    with weights.open("ab") as stream:
        stream.write(b" ")
    assert len({first, second, remembered_sha256(weights)}) == len(readings) == 3


def test_a_file_of_this_moment_or_a_small_one_is_not_remembered(
    weights: Path, readings: list[Path]
) -> None:
    os.utime(weights)
    small = weights.with_name("small")
    small.write_text("x")
    for file in (weights, weights, small, small):
        remembered_sha256(file)
    assert len(readings) == 4
    assert not (cache_folder() / "hashes").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{broken", b"[1, 2]", b"null", b"\xff\xfe", b'{"path": 1, "mark": [1], "sha256": "a"}'],
)
def test_a_damaged_record_costs_a_reading(
    weights: Path, readings: list[Path], content: bytes
) -> None:
    expected = remembered_sha256(weights)
    (record,) = (cache_folder() / "hashes").iterdir()
    whole = record.read_bytes()
    record.write_bytes(content)
    assert remembered_sha256(weights) == expected
    record.write_bytes(whole.replace(expected.encode(), expected[:10].encode()))
    assert remembered_sha256(weights) == expected
    assert record.read_bytes() == whole
    assert len(readings) == 3


def test_hashes_are_found_where_the_cache_cannot_be_written(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(weights / "below-a-file"))
    assert remembered_sha256(weights) == hashlib.sha256(weights.read_bytes()).hexdigest()


def test_many_at_once_remember_the_same(weights: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(remembered_sha256, [weights] * 64))
    assert found == {hashlib.sha256(weights.read_bytes()).hexdigest()}
    assert len(list((cache_folder() / "hashes").iterdir())) == 1


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERTIUM_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tertium"),
        ({"HOME": "/c"}, "/c/.cache/tertium"),
    ],
)
def test_cache_folder(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERTIUM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def no_space(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def not_supported(*arguments: object) -> None:
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


@pytest.mark.parametrize("supported", [True, False])
def test_the_space_of_a_matrix_is_reserved(
    supported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not supported:
        monkeypatch.setattr(os, "posix_fallocate", not_supported)
    path = tmp_path / "x.npy"
    matrix = new_matrix(path, np.float32, (3000, 300))
    assert path.stat().st_blocks * 512 >= path.stat().st_size > 3000 * 300 * 4
    matrix[1] = 7
    matrix.flush()
    again = np.load(path)
    assert again.shape == (3000, 300) and again.sum() == 2100


def test_a_matrix_without_space_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(OSError, match="No space left"):
        new_matrix(tmp_path / "x.npy", np.float32, (30, 30))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error", [OSError(errno.EDQUOT, "quota"), ValueError("No space left on device (os error 28)")]
)
def test_a_full_disk_is_named_whoever_finds_it(error: Exception, tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFullError, match=r"x\.npy: no space left on this disk\. Free some"),
        atomic_path(tmp_path / "x.npy"),
    ):
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full_kills_nobody(small_disk: Path) -> None:
    code = (
        "import pathlib, sys; from tertium.files import atomic_path, new_matrix\n"
        "with atomic_path(pathlib.Path(sys.argv[1])) as path:\n"
        "    new_matrix(path, 'f4', (1000, 1000))[:] = 1"
    )
    command = [sys.executable, "-c", code, str(small_disk / "x.npy")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1  # an exception, not SIGBUS
    assert "DiskFullError" in ran.stderr
    assert list(small_disk.iterdir()) == []
