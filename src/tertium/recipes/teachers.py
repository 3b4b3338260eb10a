"""Stages that learn a teacher's embeddings."""

import warnings
from dataclasses import replace
from pathlib import Path

from tertium.corpus.vectors import map_vectors
from tertium.errors import TertiumError, TertiumWarning
from tertium.heads.projection import WidthProjection
from tertium.models import Encoder, Ensemble
from tertium.models.dense import append_linear
from tertium.objectives import OBJECTIVES
from tertium.recipes.schema import StageSpec
from tertium.training import Examples
from tertium.training.distillation import DistillationModule
from tertium.training.module import WeightedObjective

__all__ = ["build_student", "check_widths", "taught", "teacher_files"]

_VECTORS = "teacher.npy"


def check_widths(stage: StageSpec, teacher: Ensemble, student: Encoder) -> None:
    """Raise where teacher and student cannot be compared, say so where a layer helps them."""
    if teacher.dimension == student.dimension:
        return
    widths = f"The teacher's vectors have width {teacher.dimension}, the student's "
    widths += f"{student.dimension}"
    if stage.projection == "none":
        raise TertiumError(
            f"{widths}. Set stages.{stage.name}.projection to linear (in training only) or dense "
            "(kept in the model)."
        )
    if stage.projection == "dense" and student.normalizes:
        raise TertiumError(f"{widths}: a dense projection needs encoder.normalize: false.")
    if stage.projection == "linear":
        warnings.warn(
            f"{widths}: a linear layer between them is trained and left out of the model. To keep "
            "it, and the teacher's width, choose the projection dense.",
            TertiumWarning,
            stacklevel=2,
        )


def build_student(
    stage: StageSpec, teacher: Ensemble, encoder: Encoder, *, tokens_per_pass: int | None
) -> DistillationModule:
    """The student with the objective, and a projection where the widths differ."""
    between = None
    if teacher.dimension != encoder.dimension:
        between = WidthProjection(
            dimension=encoder.dimension, outputs=teacher.dimension, seed=stage.train.seed
        ).to(encoder.device)
        if stage.projection == "dense":
            append_linear(encoder, between.dense)
            between = None
    return DistillationModule(
        encoder,
        {
            spec.kind: WeightedObjective(OBJECTIVES[spec.kind](**spec.settings()), spec.weight)
            for spec in stage.objectives
        },
        to_teacher=between,
        tokens_per_pass=tokens_per_pass,
    )


def taught(
    examples: Examples, teacher: Ensemble, folder: Path, *, progress: bool | None = None
) -> Examples:
    """The examples with the teacher's vectors, which are made once and kept in ``folder``."""
    texts = [text for (text,) in examples.texts]
    return replace(
        examples, labels=map_vectors(teacher, texts, folder / _VECTORS, progress=progress)
    )


def teacher_files(folder: Path) -> list[Path]:
    """What :func:`taught` has left in ``folder``."""
    return list(folder.glob(f"{Path(_VECTORS).stem}.*"))
