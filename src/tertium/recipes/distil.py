"""Distils any models into any model, with a recipe whose names are filled in."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tertium.recipes.train import Trained, train
from tertium.types import Pooling

__all__ = ["distil"]

_RECIPE = "distil-minilm"


def distil(
    teachers: Sequence[str | os.PathLike[str]],
    student: str | os.PathLike[str],
    texts: Path,
    output: Path,
    *,
    weight: float | None = None,
    keep_projection: bool = False,
    pooling: Pooling | str | None = None,
    max_length: int | None = None,
    layers: int | Sequence[int] | None = None,
    schedule: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Trained:
    """Train ``student`` to give the embeddings of ``teachers``, on texts without labels.

    Args:
        teachers: one model, or several whose embeddings are summed.
        student: the model to start from.
        texts: a text file with one text per line, or a table.
        output: folder for the model.
        weight: weight of the last teacher, see :func:`tertium.models.loading.combine`.
        keep_projection: if the widths differ, keep the linear layer between them, and with it
            the teacher's width.
        pooling: the student's pooling (default: its own).
        max_length: maximum tokens that the student reads, in training and afterwards.
        layers: how many of the student's layers to keep, or which, counted from 1.
        schedule: changes to the recipe's ``train``, such as ``{"epochs": 3}``.
        settings: further settings of the recipe ``distil-minilm``, by their path.
        options: options of :func:`tertium.train`: ``data``, ``resume``, ``seed``,
            ``command``, ``evaluate_after``, ``progress``.
    """
    names = [os.fspath(teacher) for teacher in teachers]
    stage = "stages.distil"
    values: dict[str, Any] = {
        "summary": f"{' + '.join(names)} distilled into {os.fspath(student)}",
        "source": "Mean squared error between embeddings.",
        "encoder.model": os.fspath(student),
        "encoder.pooling": None if pooling is None else str(pooling),
        "encoder.max_length": max_length,
        "encoder.layers": list(layers) if isinstance(layers, Sequence) else layers,
        f"{stage}.data.sources": [{"file": str(texts)}],
        f"{stage}.teacher": {"models": names, "weight": weight},
        f"{stage}.projection": "dense" if keep_projection else "linear",
        **{f"{stage}.train.{name}": value for name, value in (schedule or {}).items()},
    }
    return train(_RECIPE, output, settings={**values, **(settings or {})}, **options)
