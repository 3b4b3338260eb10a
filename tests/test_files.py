import hashlib
import os
import stat
from pathlib import Path

import pytest

from tertium.files import atomic_path, cache_folder, sha256


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


def test_sha256_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "data"
    for content in (b"one", b"three", b""):
        file.write_bytes(content)
        assert sha256(file) == hashlib.sha256(content).hexdigest()


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
