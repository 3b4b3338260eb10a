"""What a package index shows, and what a container runs."""

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
BASE = "https://example.org/tertium"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build hook, without the package that calls it."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    loaded = ModuleType("hatch_build")
    vars(loaded).update(runpy.run_path(str(ROOT / "hatch_build.py")))
    return loaded


def test_the_readme_has_no_relative_link_on_a_package_index(hook: ModuleType) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    assert len(relative) > 10
    absolute = hook.linked(text, BASE)
    assert set(re.findall(r"\]\(([^)]+)\)", absolute)) >= {
        f"{BASE}/blob/HEAD/docs/index.md",
        f"{BASE}/raw/HEAD/docs/images/tour.svg",
    }
    for shown in (absolute, hook.linked(text, "")):
        assert not re.search(r"\]\((?!https?:|#)", shown)
    assert hook.addresses("") == {} and hook.addresses(BASE)["Issues"] == f"{BASE}/issues"


def test_the_metadata_are_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {"name", "description", "authors", "license", "keywords", "classifiers", "scripts"}
    assert wanted <= project.keys()
    assert set(project["dynamic"]) == {"version", "readme", "urls"}


def test_the_container_copies_what_the_build_needs() -> None:
    steps = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    copied = " ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", steps, flags=re.M)).split()
    assert {"constraints.txt", "hatch_build.py", "pyproject.toml", "README.md", "src"} <= {*copied}
    assert all((ROOT / name).exists() for name in copied)
