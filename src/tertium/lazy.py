"""Names of a package that are imported on first use, so that importing the package stays fast."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from tertium.errors import missing_extra

__all__ = ["lazy", "lazy_names"]


def lazy(package: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for the names that ``package`` imports under ``if TYPE_CHECKING:``.

    The block is read from the package's source on first use: names are listed once, for type
    checkers and for Python.
    """

    @cache
    def homes() -> dict[str, str]:
        spec = sys.modules[package].__spec__
        return lazy_names(spec.loader.get_source(package))  # type: ignore[union-attr]

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(homes()[name]), name)
        except ModuleNotFoundError as error:
            missing = missing_extra(error)
            if missing is None:
                raise
            raise missing from error

    return __getattr__


def lazy_names(source: str) -> dict[str, str]:
    r"""The names that a module imports under ``if TYPE_CHECKING:``, and where from.

    >>> lazy_names("if TYPE_CHECKING:\n    from a.b import c, d")
    {'c': 'a.b', 'd': 'a.b'}
    """
    return {
        alias.name: str(statement.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
