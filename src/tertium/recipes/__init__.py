"""Recipes: YAML files, and the code that trains what they describe."""

from tertium.recipes.files import read_recipe, recipe_names
from tertium.recipes.suites import Suite, evaluate, suites

__all__ = ["Suite", "evaluate", "read_recipe", "recipe_names", "suites"]
