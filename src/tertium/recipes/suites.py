"""Evaluation suites: named lists of tasks."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from tertium.data import benchmarks
from tertium.errors import unknown_name
from tertium.models.base import Model
from tertium.recipes.files import CONFIGS, read_yaml

if TYPE_CHECKING:
    from tertium.evaluation import Report

__all__ = ["Suite", "check_suites", "evaluate", "suites"]


class Suite(BaseModel):
    """A named list of tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str
    summary: str
    tasks: tuple[str, ...]


@cache
def suites() -> dict[str, Suite]:
    """All suites by name, from ``configs/suites.yaml``."""
    found = read_yaml(CONFIGS / "suites.yaml")
    return {name: Suite(suite=name, **values) for name, values in found.items()}


def evaluate(
    model: Model | str | os.PathLike[str] = "default",
    suite: str | Iterable[str] = "sts",
    *,
    data: str | os.PathLike[str] | None = None,
    baseline: Model | str | os.PathLike[str] | None = None,
    **options: Any,
) -> "Report":
    """Evaluate a model on one or several suites.

    Args:
        model: a model, or anything :func:`tertium.load` takes.
        suite: ``sts``, ``transfer``, ``geometry``, ``csts``, or several of them.
        data: benchmark folder (default: ``TERTIUM_DATA``, else the hub).
        baseline: a second model, tested against with a paired bootstrap.
        options: see :func:`tertium.evaluation.run` (text, resamples, seed, exclude, progress).
    """
    from tertium.evaluation import run

    wanted = [suite] if isinstance(suite, str) else list(suite)
    check_suites(wanted)
    return run(
        _loaded(model),
        {name: suites()[name].tasks for name in wanted},
        folder=benchmarks.find_folder(None if data is None else Path(data)),
        baseline=None if baseline is None else _loaded(baseline),
        **options,
    )


def check_suites(names: Iterable[str]) -> None:
    """Raise unless every name is that of a suite."""
    for name in names:
        if name not in suites():
            raise unknown_name("suite", name, suites())


def _loaded(
    model: Model | str | os.PathLike[str],
) -> Model:
    from tertium.models import load

    return load(model) if isinstance(model, str | os.PathLike) else model
