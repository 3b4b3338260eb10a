import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import tertium
from tertium.data import DATASETS
from tertium.engines import ENGINES
from tertium.evaluation import TASKS
from tertium.heads import CONDITIONAL_HEADS, HEADS
from tertium.models import KINDS, NAMES
from tertium.objectives import OBJECTIVES
from tertium.recipes import suites
from tertium.recipes.files import recipe_names
from tertium.recipes.sweep import sweep_names
from tertium.serve.routes import ENDPOINTS
from tertium.types import Kind, Pooling
from tertium.views import VIEWS

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
HEAVY = {"torch", "transformers", "sentence_transformers", "sklearn", "scipy", "numpy", "pandas"}
OTHERS = {  # modules for libraries that need not be installed
    "tertium.evaluation.mteb": "mteb",
    "tertium.integrations.haystack": "haystack",
    "tertium.integrations.langchain": "langchain_core",
    "tertium.integrations.llama_index": "llama_index.core",
    "tertium.integrations.spacy": "spacy",
}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(tertium.__path__, "tertium.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("statement", ["import tertium", "import tertium.cli"])
def test_importing_is_light_and_does_nothing(statement: str) -> None:
    script = f"""
import os, sys
before = dict(os.environ)
{statement}
assert dict(os.environ) == before, "the environment changed"
print(*sorted(set({sorted(HEAVY)}) & set(sys.modules)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "", "")


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_what_they_are_and_export_what_they_say(name: str) -> None:
    needed = OTHERS.get(name)
    if needed is not None:
        pytest.importorskip(needed, reason=f"{needed} is not installed here")
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    missing = [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)]
    assert not missing


def test_public_names() -> None:
    assert all(getattr(tertium, name) is not None for name in tertium.__all__)
    assert dir(tertium) == sorted(tertium.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tertium.nothing


@pytest.mark.parametrize("key", KINDS)
def test_every_encoder_has_a_kind_and_tests(key: str) -> None:
    assert key in set(Kind)
    module = KINDS[key].__module__.rsplit(".", 1)[-1]
    assert (TESTS / "models" / f"test_{module}.py").is_file()


# Each registry with the folder of its tests and the page that describes its keys.
REGISTRIES: dict[str, tuple[Iterable[str], str, str]] = {
    "objective": (OBJECTIVES, "objectives", "reference/objectives.md"),
    "head": (HEADS, "heads", "reference/heads.md"),
    "conditional head": (CONDITIONAL_HEADS, "heads", "reference/heads.md"),
    "view": (VIEWS, "views", "reference/views.md"),
    "pooling": (Pooling, "models", "reference/encoders.md"),
    "engine": (ENGINES, "engines", "how-to/engines.md"),
    "task": (TASKS, "evaluation", "reference/evaluation.md"),
    "endpoint": (ENDPOINTS, "serve", "reference/serve.md"),
    "name": (NAMES, "models", "reference/python.md"),
    "recipe": (recipe_names(), "recipes", "reference/recipes.md"),
    "sweep": (sweep_names(), "recipes", "reference/recipes.md"),
}
# How tests call a registry that they go through from end to end.
WHOLE = {
    "pooling": ", Pooling)",
    "task": "TASKS",
    "recipe": "recipe_names()",
    "sweep": "sweep_names()",
}


@pytest.mark.parametrize(
    ("registry", "key"),
    [(name, str(key)) for name, (keys, _, _) in REGISTRIES.items() for key in keys],
)
def test_every_key_has_a_test_and_a_place_on_its_page(registry: str, key: str) -> None:
    keys, folder, page = REGISTRIES[registry]
    shown = (DOCS / page).read_text(encoding="utf-8")
    assert re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", shown), f"{page} does not name {key}"
    tests = "".join(file.read_text("utf-8") for file in (TESTS / folder).glob("test_*.py"))
    words = {f'"{key}"', f'/v1/{key}"', WHOLE.get(registry, f'"{key}"')}
    if isinstance(keys, dict) and isinstance(keys[key], type):
        words.add(keys[key].__name__)
    assert any(word in tests for word in words), f"no test in tests/{folder} names {key}"


@pytest.mark.parametrize("key", TASKS)
def test_every_task_is_in_one_suite(key: str) -> None:
    parts = ("sts-short", "sts-b")  # of sts
    whole = [suite for name, suite in suites().items() if name not in parts]
    assert len([suite for suite in whole if key in suite.tasks]) == 1


@pytest.mark.parametrize("key", sorted(suites()))
def test_every_suite_has_a_summary_and_tasks(key: str) -> None:
    assert suites()[key].summary and suites()[key].tasks


@pytest.mark.parametrize("key", DATASETS)
def test_every_data_set_is_known_by_its_name(key: str) -> None:
    assert DATASETS[key].name == key
    assert DATASETS[key].rows and DATASETS[key].licence
    assert bool(DATASETS[key].files) != bool(DATASETS[key].made_of)
