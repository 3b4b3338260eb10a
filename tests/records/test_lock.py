import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tertium.errors import TertiumError, TertiumWarning
from tertium.records import lock as module
from tertium.records.lock import InUseError, lock


def test_a_lock_admits_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "model" / "run" / ".lock"
    code = (
        "import pathlib, sys; from tertium.records.lock import lock\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "with lock(path, protects=path.parent): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(TertiumError, match=rf"run is in use by process {holder.pid} on \S+\."),
            lock(path, protects=path.parent, wait=0, remove=True),
        ):
            pass
        holder.kill()
        holder.wait()
    assert path.exists()  # what a killed process leaves
    with lock(path, protects=path.parent, wait=0, remove=True):
        assert f"process {os.getpid()} on" in path.read_text()
    assert not path.exists()


def test_a_lock_leaves_no_folders_that_it_made(tmp_path: Path) -> None:
    path = tmp_path / "model" / "run" / ".lock"
    with lock(path, protects=tmp_path / "model", wait=0, remove=True):
        assert (tmp_path / "model" / "run").is_dir()
    assert list(tmp_path.iterdir()) == []
    with lock(path, protects=tmp_path / "model", wait=0, remove=True):
        (tmp_path / "model" / "made").touch()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["made"]


def test_a_lock_that_others_wait_for_stays(tmp_path: Path) -> None:
    with lock(tmp_path / "new" / ".lock"):
        pass
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".lock"]


def test_waiting_is_announced_for_what_the_user_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0)
    path, held = tmp_path / ".lock", threading.Event()

    def hold() -> None:
        with lock(path):
            held.set()
            ended.wait(30)

    for protects in (None, tmp_path):
        ended = threading.Event()
        other = threading.Thread(target=hold)
        other.start()
        held.wait(30)
        held.clear()
        if protects is not None:
            with pytest.raises(InUseError, match=r"\.lock is in use by"), lock(path, wait=0):
                pass
            timer = threading.Timer(0.2, ended.set)
            timer.start()
            with (
                pytest.warns(TertiumWarning, match=f"in use by process {os.getpid()} .*waiting"),
                lock(path, protects=protects),
            ):
                assert ended.is_set()
        else:
            ended.set()
            with lock(path):
                pass
        other.join(30)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(TertiumError, match=r"index is not writable \(.*\)\. Choose another"),
        lock(tmp_path / "file" / "index" / ".lock", protects=tmp_path / "file" / "index"),
    ):
        pass
