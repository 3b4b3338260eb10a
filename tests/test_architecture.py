import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tertium
from tertium.data import DATASETS
from tertium.evaluation import TASKS
from tertium.models import ENCODERS
from tertium.objectives import OBJECTIVES
from tertium.recipes import suites
from tertium.types import Kind

TESTS = Path(__file__).parent
RECIPES = Path(tertium.__file__).parent / "recipes"
HEAVY = {"torch", "transformers", "sentence_transformers", "sklearn", "scipy", "numpy", "pandas"}
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
    if name == "tertium.evaluation.mteb":
        pytest.importorskip("mteb")
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    missing = [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)]
    assert not missing


def test_public_names() -> None:
    assert all(getattr(tertium, name) is not None for name in tertium.__all__)
    assert dir(tertium) == sorted(tertium.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tertium.nothing


@pytest.mark.parametrize("key", ENCODERS)
def test_every_encoder_has_a_kind_and_tests(key: str) -> None:
    assert key in set(Kind)
    module = ENCODERS[key].__module__.rsplit(".", 1)[-1]
    assert (TESTS / "models" / f"test_{module}.py").is_file()


@pytest.mark.parametrize("key", OBJECTIVES)
def test_every_objective_has_tests(key: str) -> None:
    module = OBJECTIVES[key].__module__.rsplit(".", 1)[-1]
    assert (TESTS / "objectives" / f"test_{module}.py").is_file()


@pytest.mark.parametrize("key", TASKS)
def test_every_task_is_in_one_suite_and_runs_in_a_test(key: str) -> None:
    assert len([suite for suite in suites().values() if key in suite.tasks]) == 1
    tests = "".join(file.read_text("utf-8") for file in TESTS.glob("evaluation/**/test_*.py"))
    assert f'"{key}"' in tests or "TASKS" in tests


@pytest.mark.parametrize("key", sorted(suites()))
def test_every_suite_has_its_recipe(key: str) -> None:
    assert (RECIPES / f"eval-{key}.yaml").is_file()
    assert suites()[key].summary


@pytest.mark.parametrize("key", DATASETS)
def test_every_data_set_is_known_by_its_name(key: str) -> None:
    assert DATASETS[key].name == key
    assert DATASETS[key].rows and DATASETS[key].files and DATASETS[key].licence
