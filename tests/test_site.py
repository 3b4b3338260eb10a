"""The site builds: every link leads somewhere, on the site as in a checkout."""

import re
from pathlib import Path

import pytest

import tertium

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.filterwarnings("ignore")
def test_the_site_builds_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdocs = pytest.importorskip("mkdocs.__main__", reason="mkdocs is not installed: tertium[docs]")
    from click.testing import CliRunner

    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    arguments = ["build", "--strict", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(tmp_path)]
    built = CliRunner().invoke(mkdocs.cli, arguments)
    assert built.exit_code == 0, built.output
    page = (tmp_path / "performance" / "index.html").read_text(encoding="utf-8")
    copies = re.findall(r'href="(\.\./repository/[^"#]+)"', page)
    assert copies and all((tmp_path / "performance" / copy).resolve().exists() for copy in copies)
    api = (tmp_path / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    missing = [name for name in tertium.__all__ if f'id="tertium.{name}"' not in api]
    assert missing == ["__version__"]
    assert re.findall(r":(?:func|class|meth|mod|attr|data):", api) == []


def test_the_version_stands_in_one_place() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tertium.__version__}\n" in citation
