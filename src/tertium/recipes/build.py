"""From a checked recipe to the objects that train."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.data.problems import DataError, Problem
from tertium.data.readers import iter_rows
from tertium.data.rows import GradedPair, LabelledPair, NliPair
from tertium.data.tables import header_line
from tertium.encoders import Encoder
from tertium.errors import TertiumError
from tertium.evaluation import spearman
from tertium.evaluation.tasks.sts import cosines
from tertium.heads import HEADS, PairHead
from tertium.inference import load
from tertium.manifest import TrainingData
from tertium.objectives import OBJECTIVES, Objective
from tertium.recipes.schema import (
    DataSpec,
    EncoderSpec,
    ObjectiveSpec,
    SelectSpec,
    SourceSpec,
    TrainSpec,
)
from tertium.training import Examples, Schedule
from tertium.training.health import Measurement, measure
from tertium.training.module import WeightedObjective

__all__ = [
    "StageData",
    "build_encoder",
    "build_objectives",
    "build_schedule",
    "build_selection",
    "load_examples",
]


_Labelled = GradedPair | LabelledPair | NliPair


@dataclass(frozen=True)
class StageData:
    """A stage's examples, and where they came from."""

    examples: Examples
    labels: OrderedLabels
    seen: tuple[TrainingData, ...]
    licences: tuple[str, ...]


def build_encoder(spec: EncoderSpec, *, model: str | None = None) -> Encoder:
    """The encoder to start from, ready to learn."""
    loaded = load(model or spec.model, max_length=spec.max_length)
    encoder = loaded if isinstance(loaded, Encoder) else loaded.encoder
    encoder = encoder.with_pooling(spec.pooling, normalize=spec.normalize)
    if spec.freeze == "embeddings":
        for name, parameter in encoder.backbone.named_parameters():
            parameter.requires_grad = "embeddings" not in name
    return encoder


def load_examples(spec: DataSpec, *, folder: Path | None, seed: int) -> StageData:
    """All sources' pairs with their labels on the recipe's scale."""
    labels = spec.labels.build()
    texts: list[tuple[str, ...]] = []
    values: list[float] = []
    seen: list[TrainingData] = []
    licences: list[str] = []
    for source in spec.sources:
        pairs, licence = _read(source, labels, folder)
        if source.limit is not None:
            random.Random(0).shuffle(pairs)
            pairs = pairs[: source.limit]
        texts += [pair[:2] for pair in pairs]
        values += [pair[2] for pair in pairs]
        split = source.split if source.name else None
        seen.append(TrainingData(name=source.name or str(source.file), split=split))
        licences.append(licence)
    if spec.limit is not None:
        kept = random.Random(0).sample(range(len(texts)), min(spec.limit, len(texts)))
        texts, values = [texts[at] for at in kept], [values[at] for at in kept]
    if spec.labels.round:
        values = [labels.rounded(value) for value in values]
    if len(set(values)) < 2:
        raise TertiumError(
            f"All {len(values)} labels are equal: there is nothing to learn. Check the labels."
        )
    return StageData(Examples(texts, values), labels, tuple(seen), tuple(licences))


def build_objectives(
    specs: tuple[ObjectiveSpec, ...], labels: OrderedLabels, *, dimension: int, seed: int
) -> dict[str, WeightedObjective]:
    """Objectives by kind, each with its own head."""
    return {
        spec.kind: WeightedObjective(_objective(spec, labels, dimension, seed), spec.weight)
        for spec in specs
    }


def build_schedule(spec: TrainSpec, select: SelectSpec | None) -> Schedule:
    """The training floor's schedule."""
    fields = spec.model_dump()
    return Schedule(**fields, evaluate_every=None if select is None else select.every)


def build_selection(
    spec: SelectSpec, encoder: Encoder, *, folder: Path | None
) -> Callable[[], Measurement]:
    """The figure that chooses the checkpoint."""
    data = benchmarks.load(spec.task, split=spec.split, folder=folder, text=spec.text)
    texts = [text for row in data.rows for text in (row.sentence1, row.sentence2)]
    gold = np.array([row.score for row in data.rows])

    def select() -> Measurement:
        rows = encoder.encode(texts, progress=False)
        score = 100 * spearman(gold, cosines(rows[0::2], rows[1::2]))
        return measure(score, torch.from_numpy(rows[:512]))

    return select


def _objective(spec: ObjectiveSpec, labels: OrderedLabels, dimension: int, seed: int) -> Objective:
    head = _head(spec, labels, dimension, seed)
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
    if spec.head == "cosine":
        return HEADS["cosine"](dimension=dimension, low=labels.low, high=labels.high)
    outputs = int(labels.classes([labels.high])[0]) + 1 if spec.kind == "cross_entropy" else 1
    return HEADS["siamese"](dimension=dimension, features=spec.features, outputs=outputs, seed=seed)


def _read(
    source: SourceSpec, labels: OrderedLabels, folder: Path | None
) -> tuple[list[tuple[str, str, float]], str]:
    if source.name is None:
        path = Path(str(source.file))
        own: type[GradedPair] | type[LabelledPair]
        own = GradedPair if labels.names is None else LabelledPair
        rows: list[_Labelled] = [*iter_rows(path, own)]
        _check_labels(path, rows, labels)
        return [(r.sentence1, r.sentence2, _value(r, labels, None)) for r in rows], "the user's own"
    data = benchmarks.load(source.name, split=source.split, folder=folder, text=source.text)
    row_type: type[_Labelled] = GradedPair if labels.names is None else NliPair
    if not isinstance(data.rows[0], row_type):
        raise TertiumError(
            f"{source.name} holds {type(data.rows[0]).__name__} rows, and the recipe's labels need "
            f"{row_type.__name__}: give labels by {'names' if labels.names is None else 'range'}."
        )
    scale = benchmarks.DATASETS[source.name].scale
    return [(r.sentence1, r.sentence2, _value(r, labels, scale)) for r in data.rows], data.licence


def _value(row: _Labelled, labels: OrderedLabels, scale: tuple[float, float] | None) -> float:
    """A row's label as a number, moved linearly from the set's own scale to the recipe's."""
    if not isinstance(row, GradedPair):
        return labels.value(row.label)
    if scale is None:
        return labels.value(row.score)
    low, high = scale
    share = (row.score - low) / (high - low)
    return labels.low + share * (labels.high - labels.low)


def _check_labels(path: Path, rows: list[_Labelled], labels: OrderedLabels) -> None:
    """Raise with every row whose label the recipe does not know."""
    if not rows:
        raise TertiumError(f"{path} holds no pairs.")
    if labels.names is None:
        known = f"labels go from {labels.low:g} to {labels.high:g}"
    else:
        known = f"labels are {', '.join(labels.names)}"
    problems = []
    for number, row in enumerate(rows, (header_line(path) or 0) + 1):
        column, given = (
            ("score", row.score) if isinstance(row, GradedPair) else ("label", row.label)
        )
        try:
            labels.value(given)
        except TertiumError:
            remedy = f"{known}; correct it or set the recipe's labels"
            problems.append(Problem(str(path), number, column, str(given), remedy))
    if problems:
        raise DataError(problems)
