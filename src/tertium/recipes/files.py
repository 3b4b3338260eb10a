"""Recipe files: finding them by name, extending them, applying settings, and validation."""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml
from pydantic import ValidationError

from tertium.errors import TertiumError, unknown_name

if TYPE_CHECKING:
    from tertium.recipes.schema import Recipe

__all__ = [
    "CONFIGS",
    "RUN",
    "RecipeError",
    "RecipeSource",
    "called",
    "check_run",
    "leads",
    "own_data",
    "parse_settings",
    "read_content",
    "read_recipe",
    "read_yaml",
    "recipe_names",
    "resolve_recipe",
]

RecipeSource: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Recipe"
CONFIGS = Path(__file__).with_name("configs")
RUN = Path("run", "recipe.yaml")  # its presence marks a run in a model's folder
_NO_YAML = (yaml.YAMLError, ValueError, TypeError, RecursionError)  # of a date, a key, nesting


class RecipeError(TertiumError):
    """A recipe with mistakes, all of which are reported at once."""


def recipe_names() -> list[str]:
    """Names of the training recipes that come with tertium."""
    return sorted(_shipped())


def check_run(output: Path, *, resume: bool) -> None:
    """Raise if ``output`` already contains a run that is not to be resumed."""
    if leads() and (output / RUN).exists() and not resume:
        raise TertiumError(
            f"{output} holds a run already. Continue it with --resume, or choose another folder."
        )


def leads() -> bool:
    """Whether this process writes files: the only one, or the first started by a launcher."""
    return int(os.environ.get("RANK", "0")) == 0


def own_data(
    recipe: RecipeSource, *, pairs: Path | None = None, texts: Path | None = None
) -> dict[str, Any]:
    """Settings that replace a recipe's data by the user's files.

    Args:
        recipe: as for :func:`read_recipe`.
        pairs: replaces the sources of the last stage on graded pairs or triples.
        texts: replaces the data, including limits, of every stage on single texts.
    """
    if pairs is None and texts is None:
        return {}
    if pairs is not None and texts is not None:
        raise TertiumError("Give either a file of pairs or --texts, not both.")
    kinds = [stage.data.kind for stage in read_recipe(recipe).stages]
    if texts is not None:
        data = {"kind": "texts", "sources": [{"file": str(texts)}]}
        found = {f"stages.{at}.data": data for at, kind in enumerate(kinds) if kind == "texts"}
        if not found:
            raise TertiumError(
                f"The recipe '{called(recipe)}' does not learn from single texts: --texts "
                "replaces nothing."
            )
        return found
    labelled = [at for at, kind in enumerate(kinds) if kind in ("graded", "conditional")]
    if not labelled:
        raise TertiumError(
            f"The recipe '{called(recipe)}' does not learn from graded pairs. For a file of "
            "texts, say --texts FILE."
        )
    return {f"stages.{labelled[-1]}.data.sources": [{"file": str(pairs)}]}


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Paths and values from ``a.b=value`` texts of ``--set`` and sweeps.

    >>> parse_settings(["stages.0.train.epochs=2", "encoder.pooling=cls"])
    {'stages.0.train.epochs': 2, 'encoder.pooling': 'cls'}
    """
    settings: dict[str, Any] = {}
    for text in given:
        place, equals, value = text.partition("=")
        if not equals or not place:
            raise RecipeError(f"--set {text}: write it as a.b=value.")
        settings.pop(place, None)  # if repeated, apply it at the position of the last one
        try:
            settings[place] = yaml.safe_load(value)
        except _NO_YAML as error:
            raise RecipeError(f"--set {text}: the value is not YAML.") from error
    return settings


def read_recipe(
    recipe: RecipeSource,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> "Recipe":
    """A validated recipe.

    Args:
        recipe: the name of a shipped recipe, a YAML file, a dictionary, or a recipe.
        settings: values by their path, such as ``{"stages.0.train.epochs": 2}``; a stage is
            referred to by name or number, and ``*`` means every stage.
        seed: replaces the seed of every stage; tower II of a twin gets the next one.
    """
    content = read_content(recipe, settings=settings)
    if seed is not None:
        stages = content.get("stages")
        for stage in stages if isinstance(stages, list) else []:
            train = stage.get("train") or {} if isinstance(stage, dict) else None
            if isinstance(train, dict):  # validation below reports anything else
                own = seed + (stage.get("tower") == "second")  # else both towers would be equal
                stage["train"] = {**train, "seed": own}
    from tertium.recipes.schema import Recipe

    name = called(recipe)
    try:
        return Recipe.model_validate(content)
    except UnicodeEncodeError as error:
        raise RecipeError(f"The recipe '{name}' names a setting that is not text.") from error
    except ValidationError as error:
        # A list whose items are all wrong is also reported as too short, which is redundant.
        errors = [e for e in error.errors() if not (e["type"] == "too_short" and e["input"])]
        lines = [f"{_where(e['loc'], content)}: {_message(e)}" for e in errors]
        raise RecipeError(f"The recipe '{name}' has mistakes:\n  " + "\n  ".join(lines)) from error


def read_content(
    recipe: RecipeSource, *, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The plain values of a recipe with its settings, before validation."""
    if isinstance(recipe, Mapping):
        content = _extended(deepcopy(dict(recipe)), "the dictionary")
    elif isinstance(recipe, str | os.PathLike):
        content = _load(os.fspath(recipe))
    else:
        content = recipe.to_dict()
    for place, value in (settings or {}).items():
        _put(content, place, value)
    return content


def resolve_recipe(name: str) -> tuple[Path | None, str]:
    """The file of a recipe (None for a shipped one) and its name there.

    ``FILE.yaml:NAME`` is one of several recipes in a file.
    """
    file, colon, variant = name.rpartition(":")
    inside = bool(colon) and Path(file).suffix in (".yaml", ".yml")
    path = Path(file if inside else name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise RecipeError(f"{path}: no such recipe file.")
        return path, variant if inside else path.stem
    if name not in _shipped():
        raise unknown_name("recipe", name, recipe_names(), remedy="Run: tertium recipes")
    return None, name


def read_yaml(path: Path) -> Any:
    """The content of a YAML file."""
    try:
        return yaml.safe_load(path.read_bytes())
    except _NO_YAML as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise RecipeError(f"{path}{place} is not YAML: {reason}.") from error


def called(recipe: RecipeSource) -> str:
    """A recipe's name in messages: its name, file or summary."""
    if isinstance(recipe, str | os.PathLike):
        return os.fspath(recipe)
    summary = recipe.get("summary") if isinstance(recipe, Mapping) else recipe.summary
    return str(summary or "without a summary")


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    """The content of the shipped recipes."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((CONFIGS / "recipes").glob("*.yaml")):
        content = yaml.load(path.read_text("utf-8"), Loader=loader)
        found |= _family(content, path)
    return found


def _family(content: Any, path: Path) -> dict[str, dict[str, Any]]:
    """The recipes in a file: one with the file's name, or its ``variants`` on common values.

    A variant that extends another one in the file inherits the common values from it.
    """
    if not isinstance(content, dict):
        raise RecipeError(f"{path} holds no recipe: a mapping with stages is needed.")
    common = {key: value for key, value in content.items() if key != "variants"}
    if "variants" not in content:
        return {path.stem: common}
    variants = content["variants"]
    if not isinstance(variants, dict) or not variants:
        raise RecipeError(f"{path}: variants are recipes by their names.")
    return {
        str(name): own if (own or {}).get("extends") in variants else _merge(common, own or {})
        for name, own in variants.items()
    }


def _load(name: str, *, below: tuple[str, ...] = ()) -> dict[str, Any]:
    """A recipe's values on top of those of the recipe that it extends."""
    path, inside = resolve_recipe(name)
    known = _shipped() if path is None else _family(read_yaml(path), path)
    if inside not in known:
        raise unknown_name(f"recipe in {path}", inside, known, remedy=f"Name it: {path}:NAME")
    return _extended(deepcopy(known[inside]), name, below=below)


def _extended(content: dict[str, Any], name: str, *, below: tuple[str, ...] = ()) -> dict[str, Any]:
    if name in below:
        chain = " -> ".join(Path(part).stem for part in (*below, name))
        raise RecipeError(f"{name} extends itself: {chain}.")
    parent = content.pop("extends", None)
    if parent is None:
        return content
    merged: dict[str, Any] = _merge(_load(str(parent), below=(*below, name)), content)
    return merged


def _merge(base: Any, change: Any) -> Any:
    """Merge mappings by key and stages by name; replace anything else."""
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


def _put(content: dict[str, Any], place: str, value: Any) -> None:
    """Set the value at a dotted path, creating missing mappings; ``*`` is every item of a list."""
    *parents, last = place.split(".")
    inners: list[Any] = [content]
    for part in parents:
        found = []
        for inner in inners:
            for key in _keys(inner, part, place):
                if isinstance(inner, dict) and inner.get(key) is None:
                    inner[key] = {}
                found.append(inner[key])
        inners = found
    for inner in inners:
        for key in _keys(inner, last, place):
            inner[key] = deepcopy(value)


def _keys(inner: Any, part: str, place: str) -> Sequence[Any]:
    if isinstance(inner, dict):
        return [part]
    if not isinstance(inner, list):
        raise RecipeError(f"--set {place}: '{part}' leads nowhere.")
    if part == "*":
        return range(len(inner))
    names = [item.get("name", item.get("kind")) for item in inner if isinstance(item, dict)]
    if part in names:
        return [names.index(part)]
    if part.isdigit() and int(part) < len(inner):
        return [int(part)]
    known = ", ".join([*map(str, range(len(inner))), *filter(None, names)])
    raise RecipeError(f"--set {place}: no '{part}' here; there are {known}.")


def _where(location: tuple[int | str, ...], content: Any) -> str:
    """The path of a mistake, with stages by name."""
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
