"""Checks of option values, made before anything heavy is imported; each returns its value."""

from pathlib import Path

from tertium.errors import unknown_name

__all__ = [
    *("data_folder", "engine", "file", "files", "index", "method", "model", "models"),
    *("new_folder", "pooling", "poolings", "recipe", "suites", "sweep", "threshold", "vectors"),
]


def model(name: str | None) -> str | None:
    """A reserved name, an existing folder, or a model of the hub."""
    from tertium.models.names import NAMES, resolve

    if name is not None and name not in NAMES:
        resolve(name)
    return name


def models(names: list[str]) -> list[str]:
    """Several models."""
    for name in names:
        model(name)
    return names


def engine(name: str | None) -> str | None:
    """A known engine whose packages are installed."""
    from tertium.engines import require_engine

    if name is not None:
        require_engine(name)
    return name


def pooling(name: str | None) -> str | None:
    """A member of ``Pooling``."""
    from tertium.types import Pooling

    if name is not None and name not in set(Pooling):
        raise unknown_name("pooling", name, list(Pooling))
    return name


def poolings(names: str | None) -> str | None:
    """Several poolings, separated by commas."""
    for name in names.split(",") if names is not None else ():
        pooling(name)
    return names


def suites(names: str) -> str:
    """Evaluation suites, separated by commas."""
    from tertium.recipes.suites import check_suites

    check_suites(names.split(","))
    return names


def recipe(name: str) -> str:
    """A recipe that comes with tertium, or a file of one."""
    from tertium.recipes.files import resolve_recipe

    resolve_recipe(name)
    return name


def sweep(name: str) -> str:
    """A sweep that comes with tertium, or a file of one."""
    from tertium.recipes.sweep import resolve_sweep

    resolve_sweep(name)
    return name


def file(path: Path | None) -> Path | None:
    """An existing file."""
    from tertium.files import existing_file

    return None if path is None else existing_file(path)


def files(paths: list[Path]) -> list[Path]:
    """Existing files."""
    for path in paths:
        file(path)
    return paths


def new_folder(path: Path | None) -> Path | None:
    """A folder that does not exist yet, or is empty."""
    from tertium.files import check_new_folder

    if path is not None:
        check_new_folder(path)
    return path


def data_folder(path: Path | None) -> Path | None:
    """An existing benchmark folder."""
    from tertium.data.benchmarks import find_folder

    return None if path is None else find_folder(path)


def index(path: Path | None) -> Path | None:
    """A folder that holds an index."""
    from tertium.corpus.manifest import read_index_manifest

    if path is not None:
        read_index_manifest(path)
    return path


def vectors(path: Path | None) -> Path | None:
    """What ``tertium encode`` wrote."""
    from tertium.data.tables import check_stored_vectors

    if path is not None:
        check_stored_vectors(path)
    return path


def method(name: str) -> str:
    """How neighbours are found."""
    from tertium.corpus.hnsw import Method

    if name not in set(Method):
        raise unknown_name("method", name, list(Method))
    return name


def threshold(value: float | None) -> float | None:
    """A cosine."""
    from tertium.corpus.hnsw import check_threshold

    if value is not None:
        check_threshold(value)
    return value
