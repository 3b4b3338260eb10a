"""Registers our architectures with sentence-transformers on ``import tertium``."""

import sys
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["register_architectures"]

_HOST = "sentence_transformers"
_OURS = ("tertium.models.twin",)  # registered when imported
# Modules named in older ``modules.json`` files, and where their classes are now.
_MOVED = {"tertium.inference.cross_encoder": "tertium.models.cross_encoder"}


def register_architectures() -> None:
    """Register now if sentence-transformers is already imported, else as soon as it is.

    Nothing is imported before that: ``import tertium`` stays instant.
    """
    if _HOST in sys.modules:
        _register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register() -> None:
    for name in _OURS:
        import_module(name)
    for name, home in _MOVED.items():
        moved = ModuleType(name, f"Now :mod:`{home}`.")
        moved.__getattr__ = partial(_fetch, home)  # type: ignore[method-assign]
        sys.modules.setdefault(name, moved)


def _fetch(home: str, name: str) -> Any:
    return getattr(import_module(home), name)


class _Finder(MetaPathFinder):
    """Hooks into the import of sentence-transformers, and removes itself."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != _HOST:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs another loader and then registers our architectures."""

    def __init__(self, usual: Loader) -> None:
        self._usual = usual

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._usual.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._usual
        self._usual.exec_module(module)
        _register()
