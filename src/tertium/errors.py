"""Errors that say what to do next, and the check for optional dependencies."""

import difflib
import importlib.util
from collections.abc import Iterable

__all__ = [
    "DiskFullError",
    "MissingExtraError",
    "ModelNotFoundError",
    "TertiumError",
    "TertiumWarning",
    "missing_extra",
    "require",
    "unknown_name",
]

# An extra counts as installed when all of its packages can be imported.
EXTRAS: dict[str, tuple[str, ...]] = {
    "train": (
        "accelerate",
        "datasets",
        "jaxtyping",
        "scipy",
        "sentence_transformers",
        "sklearn",
        "torch",
        "transformers",
    ),
    "fast": ("onnxscript", "openvino", "pyarrow"),
    "search": ("usearch",),
    "scale": ("pyarrow",),
    "lance": ("lance", "pyarrow"),
    "minhash": ("rensa",),
    "cluster": ("pyarrow", "ray"),
    "serve": (
        "fastapi",
        "httptools",
        "orjson",
        "prometheus_client",
        "uvicorn",
        "uvloop",
    ),
    "report": ("jinja2", "matplotlib"),
    "explain": ("captum",),
    "mteb": ("mteb",),
    "translate": ("sentencepiece",),
}

_LISTED = 24  # up to this many names are listed in full
_SHOWN = 6  # otherwise only this many


class TertiumError(Exception):
    """A problem the user can solve; the command line shows it as one sentence and exits with 2."""


class TertiumWarning(UserWarning):
    """Something the user should know; the command line shows it as a note."""


class DiskFullError(TertiumError, OSError):
    """The disk is full."""


class MissingExtraError(TertiumError, ImportError):
    """An optional dependency is not installed."""


class ModelNotFoundError(TertiumError, FileNotFoundError):
    """A model name could not be resolved: no such folder, not cached, hub unreachable."""


def require(extra: str, *, purpose: str, packages: Iterable[str] | None = None) -> None:
    """Raise with the exact install command unless the packages of ``extra`` can be imported.

    Args:
        extra: a key of ``EXTRAS``.
        purpose: the feature that needs it, as the subject of the message.
        packages: only these packages of the extra are needed (default: all of them).
    """
    needed = EXTRAS[extra] if packages is None else tuple(packages)
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise _missing(purpose, missing, extra)


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error for a package that could not be imported, if one of the extras provides it.

    >>> print(missing_extra(ModuleNotFoundError(name="torch.nn")))
    This needs torch. Install with: pip install 'tertium[train]'
    """
    package = (error.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return _missing("This", [package], extra)
    return None


def _missing(purpose: str, packages: Iterable[str], extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"{purpose} needs {', '.join(packages)}. Install with: pip install 'tertium[{extra}]'"
    )


def unknown_name(what: str, name: str, known: Iterable[str], *, remedy: str = "") -> TertiumError:
    """Build the error for an unknown name, with the closest known one.

    Long lists of known names are cut short: ``remedy`` then says where to find them all.

    >>> print(unknown_name("suite", "tranfer", ["sts", "transfer"]))
    No suite 'tranfer'. Did you mean 'transfer'? Known: sts, transfer.
    """
    choices = sorted(known)
    many = len(choices) > _LISTED
    close = difflib.get_close_matches(name, choices, n=1)
    parts = [f"No {what} '{name}'."]
    if close:
        parts.append(f"Did you mean '{close[0]}'?")
    if not many:
        parts.append(f"Known: {', '.join(choices)}.")
    elif not close:
        parts.append(f"Known: {', '.join(choices[:_SHOWN])} and {len(choices) - _SHOWN} more.")
    return TertiumError(" ".join([*parts, *([remedy] if remedy else [])]))
