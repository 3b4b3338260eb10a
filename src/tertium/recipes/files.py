"""Recipe files: found by name, extended, overridden, and checked as a whole."""

import os
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from tertium.errors import TertiumError, unknown_name

if TYPE_CHECKING:
    from tertium.recipes.schema import Recipe

__all__ = [
    "RUN",
    "RecipeError",
    "check_run",
    "leads",
    "own_data",
    "read_content",
    "read_recipe",
    "read_yaml",
    "recipe_names",
    "resolve_recipe",
]

RUN = Path("run", "recipe.yaml")  # what a run in a model's folder is known by
_FOLDER = Path(__file__).parent
_NO_YAML = (yaml.YAMLError, ValueError, TypeError, RecursionError)  # of a date, a key, nesting


class RecipeError(TertiumError):
    """A recipe has mistakes; all of them are named at once."""


def recipe_names() -> list[str]:
    """Names of the training recipes that come with tertium."""
    return sorted(
        path.stem
        for path in _FOLDER.glob("*.yaml")
        if not path.stem.startswith(("eval-", "sweep-"))
    )


def check_run(output: Path, *, resume: bool) -> None:
    """Raise if ``output`` holds a run already that is not to be resumed."""
    if leads() and (output / RUN).exists() and not resume:
        raise TertiumError(
            f"{output} holds a run already. Continue it with --resume, or choose another folder."
        )


def leads() -> bool:
    """Whether this process writes: the only one, or the first that a launcher started."""
    return int(os.environ.get("RANK", "0")) == 0


def own_data(name: str, *, pairs: Path | None = None, texts: Path | None = None) -> list[str]:
    """Overrides that put a user's files in the place of a recipe's data.

    Args:
        name: of the recipe.
        pairs: replaces the sources of its last stage on graded pairs or triples.
        texts: replaces the data, limits included, of every stage on single texts.
    """
    if pairs is None and texts is None:
        return []
    if pairs is not None and texts is not None:
        raise TertiumError("Give either a file of pairs or --texts, not both.")
    kinds = [stage.data.kind for stage in read_recipe(name)[0].stages]
    if texts is not None:
        data = f"{{kind: texts, sources: [{{file: {str(texts)!r}}}]}}"
        found = [f"stages.{at}.data={data}" for at, kind in enumerate(kinds) if kind == "texts"]
        if not found:
            raise TertiumError(
                f"The recipe '{name}' does not learn from single texts: --texts replaces nothing."
            )
        return found
    labelled = [at for at, kind in enumerate(kinds) if kind in ("graded", "conditional")]
    if not labelled:
        raise TertiumError(
            f"The recipe '{name}' does not learn from graded pairs. For a file of texts, "
            "say --texts FILE."
        )
    return [f"stages.{labelled[-1]}.data.sources=[{{file: {str(pairs)!r}}}]"]


def read_recipe(
    name: str, *, overrides: Sequence[str] = (), seed: int | None = None
) -> "tuple[Recipe, dict[str, Any]]":
    """A checked recipe and the plain values it came from.

    Args:
        name: a recipe that comes with tertium, or a path to a YAML file.
        overrides: ``a.b=c`` settings; a stage is named by its name or number.
        seed: replaces the seed of every stage; tower II of a twin has the next one.
    """
    content = read_content(name, overrides=overrides)
    if seed is not None:
        stages = content.get("stages")
        for stage in stages if isinstance(stages, list) else []:
            settings = stage.get("train") or {} if isinstance(stage, dict) else None
            if isinstance(settings, dict):  # the check below says what else is wrong
                own = seed + (stage.get("tower") == "second")  # or both towers would be one
                stage["train"] = {**settings, "seed": own}
    from tertium.recipes.schema import Recipe

    try:
        return Recipe.model_validate(content), content
    except UnicodeEncodeError as error:
        raise RecipeError(f"The recipe '{name}' names a setting that is not text.") from error
    except ValidationError as error:
        # A list whose items are all wrong is reported as too short as well: that is no news.
        errors = [e for e in error.errors() if not (e["type"] == "too_short" and e["input"])]
        lines = [f"{_where(e['loc'], content)}: {_message(e)}" for e in errors]
        raise RecipeError(f"The recipe '{name}' has mistakes:\n  " + "\n  ".join(lines)) from error


def read_content(name: str, *, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of a recipe with its overrides, not yet checked as a whole."""
    content = _load(resolve_recipe(name))
    for override in overrides:
        _override(content, override)
    return content


def resolve_recipe(name: str) -> Path:
    """The file of a recipe name or path."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise RecipeError(f"{path}: no such recipe file.")
        return path
    if name not in recipe_names():
        raise unknown_name("recipe", name, recipe_names(), remedy="Run: tertium recipes")
    return _FOLDER / f"{name}.yaml"


def read_yaml(path: Path) -> Any:
    """What a YAML file says."""
    try:
        return yaml.safe_load(path.read_bytes())
    except _NO_YAML as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise RecipeError(f"{path}{place} is not YAML: {reason}.") from error


def _load(path: Path, *, below: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The file's values on top of those it extends."""
    if path in below:
        raise RecipeError(f"{path} extends itself: {' -> '.join(p.stem for p in (*below, path))}.")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise RecipeError(f"{path} holds no recipe: a mapping with stages is needed.")
    parent = content.get("extends")
    if parent is None:
        return content
    merged: dict[str, Any] = _merge(
        _load(resolve_recipe(str(parent)), below=(*below, path)), content
    )
    return merged


def _merge(base: Any, change: Any) -> Any:
    """Mappings merge key by key, stages by name; anything else is replaced."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return deepcopy(change)
    merged = deepcopy(base)
    for key, value in change.items():
        join = _merge_stages if key == "stages" else _merge
        merged[key] = join(base[key], value) if key in base else value
    return merged


def _merge_stages(base: Any, change: Any) -> Any:
    if not (_are_named(base) and _are_named(change)):
        return deepcopy(change)
    changes = {stage["name"]: stage for stage in change}
    merged = [_merge(stage, changes.pop(stage["name"], {})) for stage in base]
    return [*merged, *changes.values()]


def _are_named(stages: Any) -> bool:
    return (
        isinstance(stages, list)
        and bool(stages)
        and all(isinstance(stage, dict) and isinstance(stage.get("name"), str) for stage in stages)
    )


def _override(content: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise RecipeError(f"--set {override}: write it as a.b=value.")
    *parents, last = path.split(".")
    place: Any = content
    for part in parents:
        place = _step(place, part, override)
    try:
        value = yaml.safe_load(text)
    except _NO_YAML as error:
        raise RecipeError(f"--set {override}: the value is not YAML.") from error
    if isinstance(place, list):
        place[_index(place, last, override)] = value
    elif isinstance(place, dict):
        place[last] = value
    else:
        raise RecipeError(f"--set {override}: '{last}' leads nowhere.")


def _step(place: Any, part: str, override: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, part, override)]
    if not isinstance(place, dict):
        raise RecipeError(f"--set {override}: '{part}' leads nowhere.")
    if place.get(part) is None:
        place[part] = {}
    return place[part]


def _index(items: list[Any], part: str, override: str) -> int:
    names = [item.get("name", item.get("kind")) for item in items if isinstance(item, dict)]
    if part in names:
        return names.index(part)
    if part.isdigit() and int(part) < len(items):
        return int(part)
    known = ", ".join([*map(str, range(len(items))), *filter(None, names)])
    raise RecipeError(f"--set {override}: no '{part}' here; there are {known}.")


def _where(location: tuple[int | str, ...], content: Any) -> str:
    """The place of a mistake, with stages by name."""
    parts = []
    for part in location:
        content = _child(content, part)
        named = isinstance(part, int) and isinstance(content, dict) and "name" in content
        parts.append(str(content["name"] if named else part))
    return ".".join(parts) or "recipe"


def _child(content: Any, part: int | str) -> Any:
    try:
        return content[part]
    except (KeyError, IndexError, TypeError):
        return None


def _message(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    given = error.get("input")
    simple = isinstance(given, str | int | float | bool)
    return f"{text} (got {given!r})" if simple else text
