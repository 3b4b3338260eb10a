"""Stages on conditional data: head and objectives, the figure that chooses, what is saved."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tertium.data import csts
from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.evaluation import spearman
from tertium.heads import CONDITIONAL_HEADS, ConditionalHead
from tertium.models import ConditionalScorer, Encoder
from tertium.models.conditional import model_shape
from tertium.models.triple_encoder import ConditionalModel
from tertium.objectives import OBJECTIVES, Objective
from tertium.objectives.base import TripleObjective
from tertium.objectives.regression import Clip
from tertium.recipes.schema import ObjectiveSpec, StageSpec
from tertium.recipes.triples import TripleData
from tertium.training.conditional import ConditionalModule
from tertium.training.health import Measurement
from tertium.training.module import WeightedObjective

__all__ = ["build_conditional", "conditional_head", "halve", "has_csts", "triple_selection"]


def build_conditional(
    stage: StageSpec, material: TripleData, encoder: Encoder
) -> ConditionalModule:
    """Encoder, head and objectives of a stage on conditional data."""
    if stage.head is None or material.labels is None:
        raise TertiumError(f"Stage {stage.name}: conditional data need a head and labels.")
    shape, seed = model_shape(encoder), stage.train.seed
    head = CONDITIONAL_HEADS[stage.head.kind](shape, seed=seed, **stage.head.settings())
    model = ConditionalModel(encoder, head.to(encoder.device))
    return ConditionalModule(
        model,
        {
            spec.kind: WeightedObjective(_objective(spec, material.labels), spec.weight)
            for spec in stage.objectives
        },
    )


def triple_selection(
    material: TripleData, module: ConditionalModule
) -> Callable[[], Measurement] | None:
    """Spearman on the triples that were kept for choosing; None where there are none."""
    if not material.choosing or material.labels is None:
        return None
    labels, encoder = material.labels, module.encoder
    gold = np.array([row.label for row in material.choosing])
    triples = [row.texts for row in material.choosing]

    def select() -> Measurement:
        scorer = ConditionalScorer(encoder, conditional_head(module), labels)
        found = scorer.score(triples, within_scale=False, progress=False)
        return Measurement(score=100 * spearman(gold, found))

    return select


def conditional_head(module: ConditionalModule) -> ConditionalHead:
    """The head that a module trains."""
    if not isinstance(module.head, ConditionalHead):
        raise TertiumError(f"{type(module.head).__name__} is not a conditional head.")
    return module.head


@torch.no_grad()
def halve(head: ConditionalHead) -> None:
    """Round the weights to half precision, which is what an adapter keeps of them."""
    for parameter in head.parameters():
        parameter.copy_(parameter.half())


def has_csts(folder: Path) -> bool:
    """Whether C-STS is there to evaluate on."""
    return csts.find_file(folder, "validation") is not None


def _objective(spec: ObjectiveSpec, labels: OrderedLabels) -> Objective:
    """Scores and labels go from 0 to 1 here; a dead zone is given on the scale of the labels.

    Predictions beyond the range are not moved into it unless the recipe says so: a fresh regressor
    starts at its lower end, where clipping would stop half of the gradients.
    """
    kind = OBJECTIVES[spec.kind]
    if issubclass(kind, TripleObjective):
        return kind(**spec.settings())
    settings: dict[str, Any] = {} if spec.slope is None else {"slope": spec.slope}
    default = inspect.signature(kind).parameters.get("threshold")
    if default is not None:
        threshold = default.default if spec.threshold is None else spec.threshold
        settings["threshold"] = threshold / (labels.high - labels.low)
    clip = spec.clip if "clip" in spec.model_fields_set else Clip.NONE
    return kind(head=nn.Identity(), low=0.0, high=1.0, clip=clip, **settings)
