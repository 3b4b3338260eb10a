"""Recipes: YAML files, and the builders that turn their names into objects."""

from typing import TYPE_CHECKING

from tertium.lazy import lazy

if TYPE_CHECKING:
    from tertium.recipes.files import read_recipe, recipe_names
    from tertium.recipes.suites import Suite, evaluate, suites

__all__ = ["Suite", "evaluate", "read_recipe", "recipe_names", "suites"]

__getattr__ = lazy(
    __name__,
    {
        "files": ["read_recipe", "recipe_names"],
        "suites": ["Suite", "evaluate", "suites"],
    },
)
