import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the test's own folder."""

    def _write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


@pytest.fixture(scope="session")
def benchmark_folder() -> Path:
    """The real sets; tests that read them are skipped where they are not."""
    default = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("TERTIUM_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"no benchmark folder at {folder}; name one with TERTIUM_DATA")
    return folder


@pytest.fixture
def no_benchmark_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where neither the environment nor a neighbouring folder offers data."""
    inner = tmp_path / "work" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
