from pathlib import Path

import pytest

from tests.jobs.stubs import stub_model

TEXTS = [*(f"text {at % 7} {at % 5}" for at in range(30)), "", "üñí 🙂", 'a\t"b"', "text 1 1"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return stub_model(tmp_path / "model")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path
