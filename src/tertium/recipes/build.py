"""From a checked recipe to the objects that train."""

from functools import partial

from tertium.data.labels import OrderedLabels
from tertium.errors import TertiumError
from tertium.heads import HEADS, PairHead, Projection
from tertium.models import Encoder, load
from tertium.models.depth import keep_layers, spread
from tertium.models.language_head import language_head
from tertium.models.towers import join_towers, tower_encoders
from tertium.models.twin import TwinModel
from tertium.objectives import OBJECTIVES, Objective
from tertium.recipes.conditional import build_conditional
from tertium.recipes.examples import StageData
from tertium.recipes.schema import (
    EncoderSpec,
    MomentumSpec,
    ObjectiveSpec,
    StageSpec,
    head_parameters,
)
from tertium.recipes.teachers import build_student
from tertium.recipes.triples import TripleData
from tertium.training import Schedule, TrainingModule
from tertium.training.module import WeightedObjective
from tertium.training.momentum import MomentumQueue
from tertium.training.vocabulary import read_vocabulary
from tertium.views import VIEWS

__all__ = ["build_encoder", "build_module", "build_schedule", "stage_encoder"]

_TOKENS_PER_PASS = 1024  # benchmarks/train_contrastive.py


def build_encoder(spec: EncoderSpec) -> Encoder:
    """The encoder to start from, ready to learn."""
    encoder = _loaded(spec.model, spec)
    if spec.towers == 2 and not isinstance(encoder.backbone, TwinModel):
        encoder = join_towers(encoder, _loaded(spec.second or spec.model, spec))
    if spec.freeze == "embeddings":
        for name, parameter in encoder.backbone.named_parameters():
            parameter.requires_grad = "embeddings" not in name
    return encoder


def _loaded(model: str, spec: EncoderSpec) -> Encoder:
    loaded = load(model, max_length=spec.max_length)
    encoder = loaded if isinstance(loaded, Encoder) else loaded.encoder
    pooling = spec.pooling or encoder.pooling
    if pooling is None:
        raise TertiumError(
            f"{encoder.name} pools in a way without a name here: set encoder.pooling."
        )
    encoder = encoder.with_pooling(pooling, normalize=spec.normalize)
    if spec.layers is None:
        return encoder
    depth = int(encoder.backbone.config.num_hidden_layers)
    kept = spread(depth, spec.layers) if isinstance(spec.layers, int) else spec.layers
    return keep_layers(encoder, kept)


def stage_encoder(stage: StageSpec, encoder: Encoder) -> Encoder:
    """What a stage trains: the encoder, or one tower of it."""
    if stage.tower is None:
        return encoder
    first, second = tower_encoders(encoder)
    return first if stage.tower == "first" else second


def build_module(stage: StageSpec, material: StageData, encoder: Encoder) -> TrainingModule:
    """Encoder, views, projection and objectives of one stage."""
    together = build_schedule(stage).bucket or _counts_padding(stage)
    tokens_per_pass = None if together else _TOKENS_PER_PASS
    if isinstance(material, TripleData):
        return build_conditional(stage, material, encoder)
    if material.teacher is not None:
        return build_student(stage, material.teacher, encoder, tokens_per_pass=tokens_per_pass)
    seed = stage.train.seed
    vocabulary = read_vocabulary(encoder.tokenizer, encoder.backbone)
    views = [VIEWS[spec.kind](vocabulary, **spec.settings()) for spec in stage.views]
    seen = tower_encoders(encoder)[0] if stage.joint else encoder  # tower I scores for both
    scorer = seen.copy() if any(s.scores_from == "frozen" for s in stage.views) else seen
    whole = any(s.settings().get("count_padding_queries", False) for s in stage.views)
    together = build_schedule(stage).bucket or _counts_padding(stage)
    return TrainingModule(
        encoder,
        {
            spec.kind: WeightedObjective(
                _objective(spec, material.labels, encoder, seed), spec.weight
            )
            for spec in stage.objectives
        },
        sides=material.examples.sides,
        views=views,
        projection=_projection(encoder, seed) if stage.projection == "mlp" else None,
        momentum=None if stage.momentum is None else _momentum(stage.momentum, encoder),
        attend=partial(scorer.attention, whole=whole),
        tokens_per_pass=tokens_per_pass,
    )


def build_schedule(stage: StageSpec) -> Schedule:
    """The training floor's schedule; only examples that never meet are bucketed by length."""
    fields = stage.train.model_dump()
    apart = stage.data.kind in ("graded", "conditional") or stage.teacher is not None
    if fields["bucket"] is None:
        fields["bucket"] = apart
    every = None if stage.select is None else stage.select.every
    return Schedule(**fields, drop_last=not apart, evaluate_every=every)


def _counts_padding(stage: StageSpec) -> bool:
    """Whether an objective looks at rows of padding, which passes in groups leave out."""
    free = [objective.settings() for objective in stage.objectives if not objective.graded]
    return any(settings.get("count_padding_queries", False) for settings in free)


def _momentum(spec: MomentumSpec, encoder: Encoder) -> MomentumQueue:
    return MomentumQueue(encoder, size=spec.queue, decay=spec.decay, dropout=spec.dropout)


def _projection(encoder: Encoder, seed: int) -> Projection:
    spread = float(getattr(encoder.backbone.config, "initializer_range", 0.02))
    return Projection(dimension=encoder.dimension, seed=seed, spread=spread).to(encoder.device)


def _objective(
    spec: ObjectiveSpec, labels: OrderedLabels | None, encoder: Encoder, seed: int
) -> Objective:
    if labels is not None:
        return _graded(spec, labels, encoder, seed)
    if spec.kind == "masked_lm":
        return OBJECTIVES[spec.kind](head=language_head(encoder, seed=seed), **spec.settings())
    return OBJECTIVES[spec.kind](**spec.settings())


def _graded(spec: ObjectiveSpec, labels: OrderedLabels, encoder: Encoder, seed: int) -> Objective:
    head = _head(spec, labels, encoder.dimension, seed)
    if spec.kind == "cross_entropy":
        return OBJECTIVES[spec.kind](head=head, low=labels.low, step=labels.step)
    settings = {
        name: value
        for name, value in (("slope", spec.slope), ("threshold", spec.threshold))
        if value is not None
    }
    return OBJECTIVES[spec.kind](
        head=head, low=labels.low, high=labels.high, clip=spec.clip, **settings
    )


def _head(spec: ObjectiveSpec, labels: OrderedLabels, dimension: int, seed: int) -> PairHead:
    outputs = int(labels.classes([labels.high])[0]) + 1 if spec.kind == "cross_entropy" else 1
    from_stage = {
        "dimension": dimension,
        "low": labels.low,
        "high": labels.high,
        "outputs": outputs,
        "seed": seed,
    }
    taken = {name: x for name, x in from_stage.items() if name in head_parameters(spec.head)}
    return HEADS[spec.head](**taken, **spec.head_settings())
