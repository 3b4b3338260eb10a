"""Which recipes consist of the same parts: training one of them tells as much as training all."""

from collections.abc import Iterable
from typing import Any

import pytest

from tertium.recipes.files import read_recipe
from tertium.recipes.schema import Recipe


def parts(recipe: Recipe) -> str:
    """The parts of a recipe: backbone, pooling, amounts and rates play no role."""
    encoder = recipe.encoder
    kept = encoder.layers is not None, encoder.adapter_rank is not None, encoder.freeze
    stages = [
        (
            stage.tower,
            stage.data.kind,
            [view.kind for view in stage.views],
            stage.teacher is not None,
            stage.projection,
            stage.momentum is not None,
            stage.head and stage.head.kind,
            [(objective.kind, str(objective.head)) for objective in stage.objectives],
            stage.select and stage.select.task,
        )
        for stage in recipe.stages
    ]
    return repr((encoder.towers, encoder.normalize, kept, stages))


def once_per_combination(names: Iterable[str]) -> list[Any]:
    """The names as parameters; all but the first of each combination are ``long``."""
    known: set[str] = set()
    found = []
    for name in sorted(names):
        combination = parts(read_recipe(name))
        found.append(pytest.param(name, marks=pytest.mark.long if combination in known else ()))
        known.add(combination)
    return found
