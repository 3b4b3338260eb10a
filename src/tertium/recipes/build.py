"""Builds the objects that train from a validated recipe."""

import warnings
from functools import partial

from torch import nn

from tertium.errors import TertiumError, TertiumWarning
from tertium.heads import PairHead, Projection
from tertium.heads.pair import WidthProjection
from tertium.models import Encoder, Ensemble, load
from tertium.models.conditional import model_shape
from tertium.models.conditional_model import ConditionalModel
from tertium.models.surgery import (
    append_linear,
    join_towers,
    keep_layers,
    language_head,
    spread,
    tower_encoders,
)
from tertium.models.twin import TwinModel
from tertium.objectives import Objective
from tertium.recipes.data import StageData
from tertium.recipes.schema import EncoderSpec, ObjectiveSpec, PairHeadSpec, StageSpec
from tertium.training import Schedule, TrainingModule
from tertium.training.module import ConditionalModule, DistillationModule, WeightedObjective
from tertium.training.negatives import MomentumQueue
from tertium.training.stage import layer_of
from tertium.training.vocabulary import read_vocabulary

__all__ = [
    "build_encoder",
    "build_module",
    "build_schedule",
    "check_widths",
    "chosen_layers",
    "stage_encoder",
]

_TOKENS_PER_PASS = 1024  # benchmarks/train_contrastive.py


def build_encoder(spec: EncoderSpec) -> Encoder:
    """The encoder to start from, ready to be trained."""
    encoder = _loaded(spec.model, spec)
    if spec.towers == 2 and not isinstance(encoder.backbone, TwinModel):
        encoder = join_towers(encoder, _loaded(spec.second or spec.model, spec))
    if spec.freeze == "embeddings":
        freeze(encoder.backbone, layers=spec.freeze_layers)
    return encoder


def freeze(backbone: nn.Module, *, layers: int = 0) -> None:
    """Freeze the embeddings, and the lowest ``layers`` together with what all layers share."""
    depth = int(backbone.config.num_hidden_layers)  # type: ignore[arg-type, union-attr]
    if layers >= depth:
        raise TertiumError(
            f"encoder.freeze_layers is {layers}, and the model has {depth} layers: leave at least "
            "one to learn."
        )
    for name, parameter in backbone.named_parameters():
        layer = layer_of(name)
        shared = layer is None and "relative_attention_bias" in name
        frozen = layers > 0 and (shared or (layer is not None and layer < layers))
        parameter.requires_grad = "embeddings" not in name and not frozen


def _loaded(model: str, spec: EncoderSpec) -> Encoder:
    encoder = load(
        model, max_length=spec.max_length, trust_remote_code=spec.trust_remote_code
    ).encoder
    pooling = spec.pooling or encoder.pooling
    if pooling is None:
        raise TertiumError(
            f"{encoder.name} pools in a way without a name here: set encoder.pooling."
        )
    encoder = encoder.with_pooling(pooling, normalize=spec.normalize)
    layers = chosen_layers(spec, encoder)
    return encoder if layers is None else keep_layers(encoder, layers)


def chosen_layers(spec: EncoderSpec, whole: Encoder | None = None) -> tuple[int, ...] | None:
    """The layers that a recipe keeps, counted from 1; None for all."""
    if not isinstance(spec.layers, int):
        return spec.layers
    whole = load(spec.model).encoder if whole is None else whole
    return spread(int(whole.backbone.config.num_hidden_layers), spec.layers)


def stage_encoder(stage: StageSpec, encoder: Encoder) -> Encoder:
    """The encoder that a stage trains: the whole one, or one tower of it."""
    if stage.tower is None:
        return encoder
    first, second = tower_encoders(encoder)
    return first if stage.tower == "first" else second


def build_schedule(stage: StageSpec) -> Schedule:
    """How long and how fast; examples are bucketed by length only if they are not compared."""
    fields = stage.train.model_dump()
    apart = stage.data.kind in ("graded", "conditional") or stage.teacher is not None
    if fields["bucket"] is None:
        fields["bucket"] = apart
    every = None if stage.select is None else stage.select.every
    return Schedule(**fields, drop_last=not apart, evaluate_every=every)


def build_module(stage: StageSpec, material: StageData, encoder: Encoder) -> TrainingModule:
    """Encoder, views, heads and objectives of one stage."""
    objectives = {
        # names of submodules must not contain dots, but module:Class may
        spec.kind.replace(".", "/"): WeightedObjective(
            _objective(spec, stage, material, encoder), spec.weight
        )
        for spec in stage.objectives
    }
    if stage.head is not None:
        head = stage.head.build(shape=model_shape(encoder), seed=stage.train.seed)
        return ConditionalModule(ConditionalModel(encoder, head.to(encoder.device)), objectives)
    # Passes in groups of similar length drop rows of padding.
    whole = any(part.objective.counts_padding for part in objectives.values())
    together = build_schedule(stage).bucket or whole
    tokens_per_pass = None if together else _TOKENS_PER_PASS
    if material.teacher is not None:
        return DistillationModule(
            encoder,
            objectives,
            to_teacher=_to_teacher(stage, material.teacher, encoder),
            tokens_per_pass=tokens_per_pass,
        )
    vocabulary = read_vocabulary(encoder.tokenizer, encoder.backbone)
    views = [spec.build(vocabulary=vocabulary) for spec in stage.views]
    seen = tower_encoders(encoder)[0] if stage.joint else encoder  # tower I scores tokens for both
    scorer = seen.copy() if any(s.scores_from == "frozen" for s in stage.views) else seen
    momentum = stage.momentum
    return TrainingModule(
        encoder,
        objectives,
        sides=material.examples.sides,
        views=views,
        projection=_projection(encoder, stage.train.seed) if stage.projection == "mlp" else None,
        momentum=None
        if momentum is None
        else MomentumQueue(
            encoder, size=momentum.queue, decay=momentum.decay, dropout=momentum.dropout
        ),
        attend=partial(scorer.attention, whole=any(view.counts_padding for view in views)),
        tokens_per_pass=tokens_per_pass,
    )


def _objective(
    spec: ObjectiveSpec, stage: StageSpec, material: StageData, encoder: Encoder
) -> Objective:
    """The objective, with a head and the scale of labels if it takes them."""
    labels, seed = material.labels, stage.train.seed
    if labels is None:
        needs_head = spec.declares.needs_head == "language"
        return spec.build(head=language_head(encoder, seed=seed) if needs_head else None)
    if stage.head is not None:
        return spec.declares.of_scores(span=labels.high - labels.low, **spec.chosen())
    head: PairHead = (spec.head or PairHeadSpec()).build(
        dimension=encoder.dimension,
        low=labels.low,
        high=labels.high,
        outputs=int(labels.classes([labels.high])[0]) + 1 if spec.declares.classifies else 1,
        seed=seed,
    )
    return spec.build(head=head, low=labels.low, high=labels.high, step=labels.step)


def _projection(encoder: Encoder, seed: int) -> Projection:
    spread = float(getattr(encoder.backbone.config, "initializer_range", 0.02))
    return Projection(dimension=encoder.dimension, seed=seed, spread=spread).to(encoder.device)


def _to_teacher(stage: StageSpec, teacher: Ensemble, encoder: Encoder) -> WidthProjection | None:
    """A layer from the student's width to the teacher's; a dense one becomes part of the model."""
    if teacher.dimension == encoder.dimension:
        return None
    between = WidthProjection(
        dimension=encoder.dimension, outputs=teacher.dimension, seed=stage.train.seed
    ).to(encoder.device)
    if stage.projection == "dense":
        append_linear(encoder, between.dense)
        return None
    return between


def check_widths(stage: StageSpec, teacher: Ensemble, student: Encoder) -> None:
    """Raise if the widths of teacher and student cannot be matched; warn if a layer does it."""
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
