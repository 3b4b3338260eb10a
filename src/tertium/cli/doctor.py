"""``tertium doctor``: versions, hardware, extras, engines, models and data."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tertium.cli import options
from tertium.cli.output import show, table

__all__ = ["doctor"]

_PACKAGES = (
    *("tertium", "numpy", "onnxruntime", "tokenizers"),
    *("torch", "transformers", "sentence-transformers", "scikit-learn", "scipy"),
)


def doctor(as_json: options.Json = False) -> None:
    """Show versions, threads, extras, engines, the built-in model's hash and the data found.

    Example: tertium doctor
    """
    report = _report()
    rows = [
        (section, key, ", ".join(item) if isinstance(item, list) else str(item))
        for section, value in report.items()
        for key, item in (value.items() if isinstance(value, dict) else [("", value)])
    ]
    show(report, table((), rows), as_json=as_json)


def _report() -> dict[str, Any]:
    from tertium.engines.check import engine_states
    from tertium.errors import EXTRAS
    from tertium.files import cache_folder
    from tertium.hardware import default_threads, has_accelerator, processor

    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": default_threads(),
            "accelerator": has_accelerator(),
        },
        "extras": {name: _extra(packages) for name, packages in EXTRAS.items()},
        "engines": {**engine_states(), "bfloat16": _bfloat16()},
        "model": _model(),
        "data": _data(),
        "cache": str(cache_folder()),
    }


def _bfloat16() -> str:
    if _extra(("torch",)) != "installed":
        return "missing torch"
    from tertium.models.bfloat16 import bfloat16_state

    return bfloat16_state()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _extra(packages: tuple[str, ...]) -> str:
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    return f"missing {', '.join(missing)}" if missing else "installed"


def _model() -> dict[str, str]:
    from tertium.errors import TertiumError
    from tertium.models.embedded import SHA256, default_folder

    try:
        return {"default": str(default_folder()), "sha256": f"{SHA256} (checked)"}
    except TertiumError as error:
        return {"default": str(error)}


def _data() -> dict[str, Any]:
    from tertium.data.benchmarks import DATASETS, find_folder
    from tertium.errors import TertiumError

    try:
        folder = find_folder()
    except TertiumError as error:
        return {"folder": str(error)}
    if folder is None:
        return {"folder": "none (set TERTIUM_DATA or pass --data)"}
    present = [
        name
        for name, dataset in DATASETS.items()
        if any((folder / file).exists() for file in dataset.file_names)
    ]
    return {"folder": str(folder), "sets": present}
