"""Chooses a recipe for the user's own file, and says why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tertium.data.labels import OrderedLabels
from tertium.data.shapes import Recognised, Shape
from tertium.errors import TertiumError
from tertium.recipes.files import RecipeSource, called, read_content, read_recipe

__all__ = ["Choice", "choose", "own_source"]

_LEAST = 16  # rows; fewer are not enough to learn from
_FEW, _MANY = 1_000, 50_000
_HELD_OUT = 80  # pairs from which on a tenth can select the checkpoint

_RECIPES = {
    Shape.GRADED: "sts-regression-minilm",
    Shape.BINARY: "cosent-minilm",
    Shape.WORDS: "sts-regression-minilm",
    Shape.POSITIVES: "mnr-pairs-minilm",
    Shape.TRIPLETS: "mnr-triplets-minilm",
    Shape.TEXTS: "simcse-minilm",
    Shape.CONDITIONAL: "csts-bi-minilm",
}
_WHY = {
    Shape.GRADED: "grades are learned by regression, and the model gives them on their own scale",
    Shape.BINARY: "pairs that are the same should score above pairs that are not",
    Shape.WORDS: "words in order are learned by regression, at equal steps",
    Shape.POSITIVES: "the other texts of a batch are what a pair should not resemble",
    Shape.TRIPLETS: "the negatives, and the other texts of a batch, are what to stay away from",
    Shape.TEXTS: "texts without labels are learned by contrast with each other",
    Shape.CONDITIONAL: "similarity under a condition needs a model that reads the condition",
}
_KINDS: dict[Shape, tuple[str, ...]] = {  # the data that a recipe's stage must learn from
    Shape.GRADED: ("graded",),
    Shape.BINARY: ("graded",),
    Shape.WORDS: ("graded",),
    Shape.POSITIVES: ("positives",),
    Shape.TRIPLETS: ("triplets", "positives"),
    Shape.TEXTS: ("texts",),
    Shape.CONDITIONAL: ("conditional",),
}


@dataclass(frozen=True)
class Choice:
    """A recipe for a file.

    Attributes:
        recipe: the recipe's name.
        settings: changes to it: the data, their scale, and what depends on their number.
        reasons: the reasons, one sentence each.
    """

    recipe: RecipeSource
    settings: dict[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


def choose(found: Recognised, *, recipe: "RecipeSource | None" = None) -> Choice:
    """The recipe for a recognised file, with the settings that make it use the file.

    Args:
        found: the result of :func:`tertium.data.shapes.recognise`.
        recipe: use this one, and replace only its data and their scale.

    Raises:
        TertiumError: the file is not suitable for training, or the recipe needs other data.
    """
    if found.shape is Shape.PAIRS:
        raise TertiumError(
            f"{found.file}: pairs without labels are ambiguous. If the two texts of each pair mean "
            "the same, say --shape positives; else grade some of them (column score), or train on "
            "the texts alone: --texts FILE."
        )
    if found.shape is Shape.CONDITIONAL and found.labels is None:
        raise TertiumError(f"{found.file} has conditions and no grades: add a column label.")
    if found.rows < _LEAST:
        raise TertiumError(
            f"{found.file} has {found.rows} rows, too few to train on: give at least {_LEAST}. "
            "Without training, tertium.load() and tertium score need none."
        )
    if recipe is not None:
        return Choice(recipe, _data(found, recipe), (f"recipe {called(recipe)}, as you asked",))
    name = _RECIPES[found.shape]
    settings, reasons = _data(found, name), [f"recipe {name}: {_WHY[found.shape]}"]
    stage = _stage(found.shape, name)
    for place, (value, reason) in _by_size(found, name, stage).items():
        settings[place] = value
        reasons += [reason] * bool(reason)
    return Choice(name, settings, tuple(reasons))


def own_source(found: Recognised) -> dict[str, Any]:
    """A recognised file as a source of a recipe."""
    source: dict[str, Any] = {"file": str(found.file)}
    if found.columns.named:
        source["columns"] = {name: list(names) for name, names in found.columns.named.items()}
    if found.columns.strip_html:
        source["strip_html"] = True
    return source if found.split is None else {**source, "part": found.split}


def _stage(shape: Shape, recipe: RecipeSource) -> int:
    """The last stage of a recipe that can learn from such data."""
    kinds = [stage.data.kind for stage in read_recipe(recipe).stages]
    able = [at for at, kind in enumerate(kinds) if kind in _KINDS[shape]]
    if not able:
        raise TertiumError(
            f"The recipe '{called(recipe)}' learns from {' and '.join(dict.fromkeys(kinds))}, and "
            f"the file holds {shape} data. Leave --recipe out to have one chosen."
        )
    return able[-1]


def _data(found: Recognised, recipe: RecipeSource) -> dict[str, Any]:
    at = _stage(found.shape, recipe)
    stage = read_recipe(recipe).stages[at]
    data: dict[str, Any] = {"kind": stage.data.kind, "sources": [own_source(found)]}
    settings: dict[str, Any] = {}
    if found.labels is not None and stage.data.labels is not None:
        data["labels"] = _labels(found.labels)
        settings |= _thresholds(recipe, at, found.labels, stage.data.labels.build())
    if stage.data.folds is not None:
        data["folds"] = stage.data.folds.model_dump()
    return {f"stages.{at}.data": data, **settings}


def _labels(labels: OrderedLabels) -> dict[str, Any]:
    if labels.names is not None:
        return {"names": list(labels.names)}
    return {"low": labels.low, "high": labels.high, "step": labels.step}


def _thresholds(
    recipe: RecipeSource, at: int, own: OrderedLabels, theirs: OrderedLabels
) -> dict[str, Any]:
    """Thresholds that are the same number of label steps as before."""
    objectives = read_content(recipe)["stages"][at]["objectives"]
    return {
        f"stages.{at}.objectives.{number}.threshold": each["threshold"] * own.step / theirs.step
        for number, each in enumerate(objectives)
        if isinstance(each, Mapping) and "threshold" in each and own.step != theirs.step
    }


def _by_size(found: Recognised, name: str, at: int) -> dict[str, tuple[Any, str]]:
    """Settings that depend on the number of rows: epochs, batches, and checkpoint selection."""
    stage = read_recipe(name).stages[at]
    train, rows = stage.train, found.rows
    changes: dict[str, tuple[Any, str]] = {}
    epochs = train.epochs
    if found.shape is not Shape.TEXTS:
        if rows < _FEW:
            epochs = 2 * train.epochs
            reason = f"{epochs:g} passes instead of {train.epochs:g}: there are under {_FEW:,} rows"
            changes[f"stages.{at}.train.epochs"] = (epochs, reason)
        elif rows > _MANY and train.epochs > 1:
            epochs = 1.0
            changes[f"stages.{at}.train.epochs"] = (epochs, f"one pass: over {_MANY:,} rows")
    batch = train.batch_size
    if rows < 4 * batch and stage.data.kind in ("texts", "positives", "triplets", "conditional"):
        batch = max(2, 2 ** int(math.log2(rows / 4)))
        changes[f"stages.{at}.train.batch_size"] = (batch, f"batches of {batch}: few rows")
    steps = max(1, math.ceil(rows / batch * epochs))
    every = max(1, min(stage.select.every if stage.select else 90, steps // 4))
    if found.shape.labelled:
        if rows >= _HELD_OUT:
            select = {"task": "held-out", "every": every}
            reason = "a tenth of the pairs is held out and chooses the checkpoint"
        else:
            select, reason = None, f"the last checkpoint is kept: under {_HELD_OUT} pairs"
        changes[f"stages.{at}.select"] = (select, reason)
    elif stage.select is not None:
        changes[f"stages.{at}.select.every"] = (every, "")
    if found.shape is Shape.CONDITIONAL and rows < _HELD_OUT:
        changes[f"stages.{at}.data.folds"] = (None, "")
        changes[f"stages.{at}.select"] = (None, f"the last checkpoint is kept: under {_HELD_OUT}")
        changes.pop(f"stages.{at}.select.every", None)
    return changes
