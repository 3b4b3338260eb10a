"""Recipes: YAML files, and the builders that turn their names into objects."""

from tertium.recipes.suites import Suite, evaluate, suites

__all__ = ["Suite", "evaluate", "suites"]
