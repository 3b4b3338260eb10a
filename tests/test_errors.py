import re
import tomllib
from pathlib import Path

import pytest

from tertium.errors import (
    EXTRAS,
    MissingExtraError,
    ModelNotFoundError,
    TertiumError,
    require,
    unknown_name,
)

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_a_close_name_is_suggested_and_all_are_listed() -> None:
    message = str(unknown_name("task", "STS-b", ["STS12", "STS-B"], remedy="Run: x"))
    assert message == "No task 'STS-b'. Did you mean 'STS-B'? Known: STS-B, STS12. Run: x"


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    message = str(unknown_name("task", "qqqq", ["STS12"]))
    assert message == "No task 'qqqq'. Known: STS12."


MANY = [f"{method}-{model}" for method in ("simcse", "micse", "ct") for model in range(40)]


def test_of_many_names_only_the_nearest_is_given() -> None:
    message = str(unknown_name("recipe", "simsce-7", MANY, remedy="Run: tertium recipes"))
    assert message == "No recipe 'simsce-7'. Did you mean 'simcse-7'? Run: tertium recipes"


def test_of_many_names_a_few_are_listed_where_none_is_near() -> None:
    message = str(unknown_name("recipe", "qqqq", MANY, remedy="Run: x"))
    known = "ct-0, ct-1, ct-10, ct-11, ct-12, ct-13 and 114 more"
    assert message == f"No recipe 'qqqq'. Known: {known}. Run: x"


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(MissingExtraError, ImportError)
    assert issubclass(ModelNotFoundError, FileNotFoundError)
    assert issubclass(MissingExtraError, TertiumError)


def test_a_missing_extra_gives_the_exact_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "scale", ("json", "no_such_package_a", "no_such_package_b"))
    with pytest.raises(MissingExtraError) as caught:
        require("scale", purpose="Writing Parquet")
    assert str(caught.value) == (
        "Writing Parquet needs no_such_package_a, no_such_package_b. "
        "Install with: pip install 'tertium[scale]'"
    )
    require("scale", purpose="Reading JSON", packages=("json",))


def test_extras_are_those_of_the_project() -> None:
    optional = PROJECT["optional-dependencies"]
    assert set(EXTRAS) == set(optional) - {"dev", "all", "docs"}
    for extra, packages in EXTRAS.items():
        required = {re.split(r"[<>=\[]", line)[0].replace("-", "_") for line in optional[extra]}
        required = {
            {"scikit_learn": "sklearn", "pylance": "lance"}.get(name, name) for name in required
        }
        assert set(packages) == required - {"tertium"}
