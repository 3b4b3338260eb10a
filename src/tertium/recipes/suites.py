"""Evaluation suites: named lists of tasks."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict

from tertium.data import benchmarks
from tertium.errors import require, unknown_name
from tertium.models.base import Model

if TYPE_CHECKING:
    from tertium.evaluation import Report

__all__ = ["Suite", "check_suites", "evaluate", "mteb_suites", "suites"]

_MTEB = "mteb:"


class Suite(BaseModel):
    """A named list of tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str
    summary: str
    tasks: tuple[str, ...]
    metric: str | None = None  # of MTEB's (default: each task's main score)


@cache
def suites() -> dict[str, Suite]:
    """All suites by name, from ``configs/suites.yaml``."""
    found = _shipped("suites.yaml")
    return {name: Suite(suite=name, **values) for name, values in found.items()}


@cache
def mteb_suites() -> dict[str, Suite]:
    """Lists of MTEB tasks by name, from ``configs/mteb.yaml``."""
    found = _shipped("mteb.yaml")
    return {name: Suite(suite=_MTEB + name, **values) for name, values in found.items()}


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
        model: a model, or anything that :func:`tertium.load` takes.
        suite: ``sts``, ``transfer``, ``geometry``, ``csts``, or several of them; ``mteb:NAME`` is a
            list of MTEB tasks (:func:`mteb_suites`) or a single task.
        data: benchmark folder (default: ``TERTIUM_DATA``, else the hub).
        baseline: a second model to compare with, by a paired bootstrap.
        options: options of :func:`tertium.evaluation.run` (text, resamples, seed, exclude,
            progress).
    """
    from tertium.evaluation import run

    wanted = [suite] if isinstance(suite, str) else list(suite)
    check_suites(wanted)
    return run(
        _loaded(model),
        {name: suites()[name].tasks for name in wanted if not name.startswith(_MTEB)},
        mteb=[_mteb_suite(name) for name in wanted if name.startswith(_MTEB)],
        folder=benchmarks.find_folder(None if data is None else Path(data)),
        baseline=None if baseline is None else _loaded(baseline),
        **options,
    )


def _mteb_suite(name: str) -> tuple[str, tuple[str, ...], str | None]:
    """Name, tasks and metric of a list or a single task."""
    listed = name.removeprefix(_MTEB)
    found = mteb_suites().get(listed) or Suite(suite=name, summary="", tasks=(listed,))
    return name, found.tasks, found.metric


def check_suites(names: Iterable[str]) -> None:
    """Raise unless every name is a suite."""
    for name in names:
        if name.startswith(_MTEB):
            require("mteb", purpose=f"The suite {name}")
        elif name not in suites():
            raise unknown_name("suite", name, [*suites(), *(_MTEB + n for n in mteb_suites())])


def _loaded(
    model: Model | str | os.PathLike[str],
) -> Model:
    from tertium.models import load

    return load(model) if isinstance(model, str | os.PathLike) else model


def _shipped(name: str) -> Any:
    return yaml.safe_load(Path(__file__).with_name("configs").joinpath(name).read_bytes())
