"""Option callbacks that check values before anything heavy is imported, and return them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tertium.errors import unknown_name

__all__ = [
    *("data_folder", "engine", "file", "index", "method", "model", "new_folder", "pooling"),
    *("is_data", "poolings", "recipe", "recipe_or_data", "suites", "sweep", "threshold", "vectors"),
]


def _callback(check: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Check a value, or each of several, unless it was not given."""

    def checked(value: Any) -> Any:
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                check(item)
        return value

    checked.__doc__ = check.__doc__
    return checked


@_callback
def model(name: str) -> None:
    """A reserved name, an existing folder, or a model on the hub."""
    from tertium.models.names import NAMES, resolve

    if name not in NAMES:
        resolve(name)


@_callback
def engine(name: str) -> None:
    """A known engine whose packages are installed."""
    from tertium.engines import require_engine

    require_engine(name)


@_callback
def pooling(name: str) -> None:
    """A member of ``Pooling``."""
    from tertium.types import Pooling

    if name not in set(Pooling):
        raise unknown_name("pooling", name, list(Pooling))


@_callback
def poolings(names: str) -> None:
    """Several poolings, separated by commas."""
    pooling(names.split(","))


@_callback
def suites(names: str) -> None:
    """Evaluation suites, separated by commas."""
    from tertium.recipes.suites import check_suites

    check_suites(names.split(","))


@_callback
def recipe(name: str) -> None:
    """A recipe that comes with tertium, or a recipe file."""
    from tertium.recipes.files import resolve_recipe

    resolve_recipe(name)


def is_data(name: str) -> bool:
    """Whether the name is that of a data file and not a recipe."""
    from tertium.data.tables import FORMATS

    return any(suffix.lower() in FORMATS for suffix in Path(name).suffixes[-2:])


@_callback
def recipe_or_data(name: str) -> None:
    """An existing data file, or a recipe."""
    from tertium.data.tables import ending
    from tertium.files import existing_file

    if is_data(name):
        existing_file(Path(name))
        ending(Path(name))
    else:
        recipe(name)


@_callback
def sweep(name: str) -> None:
    """A sweep that comes with tertium, or a sweep file."""
    from tertium.recipes.sweep import resolve_sweep

    resolve_sweep(name)


@_callback
def file(path: Path) -> None:
    """An existing file."""
    from tertium.files import existing_file

    existing_file(path)


@_callback
def new_folder(path: Path) -> None:
    """A folder that does not exist yet, or is empty."""
    from tertium.files import check_new_folder

    check_new_folder(path)


@_callback
def data_folder(path: Path) -> None:
    """An existing benchmark folder."""
    from tertium.data.benchmarks import find_folder

    find_folder(path)


@_callback
def index(path: Path) -> None:
    """A folder with an index."""
    from tertium.corpus.convert import convert_if_old
    from tertium.corpus.store import read_index_manifest

    convert_if_old(path)
    read_index_manifest(path)


@_callback
def vectors(path: Path) -> None:
    """Vectors written by ``tertium encode``."""
    from tertium.data.tables import check_stored_vectors

    check_stored_vectors(path)


@_callback
def method(name: str) -> None:
    """A search method."""
    from tertium.corpus.hnsw import Method

    if name not in set(Method):
        raise unknown_name("method", name, list(Method))


@_callback
def threshold(value: float) -> None:
    """A cosine."""
    from tertium.corpus.hnsw import check_threshold

    check_threshold(value)
