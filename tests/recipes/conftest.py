from pathlib import Path

import pytest

from tests.recipes.toys import toy_benchmarks, toy_pairs


@pytest.fixture(scope="session")
def benchmarks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_benchmarks(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return toy_pairs(tmp_path / "pairs.tsv")


@pytest.fixture(autouse=True)
def _no_benchmarks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Data only where a test says so."""
    inner = tmp_path / "work" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
