"""Names of a package that are imported on first use, so that its light modules stay light."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from tertium.errors import missing_extra

__all__ = ["lazy"]


def lazy(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``package``.

    Args:
        package: its name.
        modules: its modules, or others by their whole names, and the names that each defines.
    """
    homes = {
        name: module if module.startswith("tertium.") else f"{package}.{module}"
        for module, names in modules.items()
        for name in names
    }

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            missing = missing_extra(error)
            if missing is None:
                raise
            raise missing from error

    return __getattr__
