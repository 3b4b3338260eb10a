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


@pytest.fixture
def no_benchmark_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where neither the environment nor a neighbouring folder offers data."""
    inner = tmp_path / "work" / "here"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("TERTIUM_DATA", raising=False)
