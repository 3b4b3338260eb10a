"""From a recipe's sources to training examples."""

import hashlib
import random
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.data.problems import DataError, Problem
from tertium.data.readers import iter_rows, iter_texts
from tertium.data.rows import (
    GradedPair,
    LabelledPair,
    NliPair,
    Row,
    Sentence,
    SentencePair,
    Triplet,
)
from tertium.data.tables import header_line
from tertium.data.translations import read_translation
from tertium.errors import TertiumError, TertiumWarning
from tertium.inference import Ensemble
from tertium.inference.combine import combine
from tertium.manifest import TrainingData
from tertium.recipes.schema import DataSpec, LabelSpec, SourceSpec, StageSpec
from tertium.training import Examples

__all__ = ["StageData", "load_examples"]

T = TypeVar("T")
_Labelled = GradedPair | LabelledPair | NliPair
_MOST_HELD_OUT = 512
_LEAST_HELD_OUT = 8


@dataclass(frozen=True)
class StageData:
    """A stage's examples, and where they came from.

    Attributes:
        examples: what is trained on.
        labels: the scale of graded pairs.
        seen: for the manifest.
        licences: terms of the data.
        held_out: texts that choose the checkpoint, where labels are not to be had.
        teacher: whose vectors of the texts are learned.
    """

    examples: Examples
    labels: OrderedLabels | None
    seen: tuple[TrainingData, ...]
    licences: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    teacher: Ensemble | None = None

    @property
    def digest(self) -> str:
        """A fingerprint of the texts, in their order."""
        return _digest(self.examples.texts)


def load_examples(stage: StageSpec, *, folder: Path | None) -> StageData:
    """All sources' examples, as the stage's kind of data needs them."""
    spec = stage.data
    if spec.kind == "graded" and spec.labels is not None:
        return _graded(spec, spec.labels, folder)
    texts, licences = _texts(spec, folder) if spec.kind == "texts" else _triplets(spec, folder)
    if spec.subset == "by-seed" and spec.limit is not None:
        texts = _hashed_subset(texts, spec.limit, seed=stage.train.seed)
    else:
        texts = _limited(texts, spec.limit)
    held_out: tuple[str, ...] = ()
    if stage.select is not None and stage.select.task == "held-out":
        texts, held_out = _hold_out(texts)
    needed = 1 if stage.teacher is not None else stage.train.batch_size  # texts that never meet
    if len(texts) < needed:
        raise TertiumError(
            f"{len(texts)} different examples do not fill one batch of {needed}. Give more texts, "
            f"or a smaller batch: --set stages.{stage.name}.train.batch_size={max(len(texts), 2)}"
        )
    teacher, seen = _teacher(stage), _seen(spec)
    if teacher is not None:
        seen = (*seen, *teacher.training_data)  # what the teacher knows, the student learns
    return StageData(Examples(texts), None, seen, licences, held_out, teacher)


def _teacher(stage: StageSpec) -> Ensemble | None:
    spec = stage.teacher
    return None if spec is None else combine(spec.models, weight=spec.weight, pooling=spec.pooling)


def _seen(spec: DataSpec) -> tuple[TrainingData, ...]:
    return tuple(
        TrainingData(
            name=source.name or str(source.file), split=source.split if source.name else None
        )
        for source in spec.sources
    )


def _graded(spec: DataSpec, scale: LabelSpec, folder: Path | None) -> StageData:
    """Pairs with their labels on the recipe's scale."""
    labels = scale.build()
    pairs: list[tuple[str, str, float]] = []
    licences: list[str] = []
    for source in spec.sources:
        found, licence = _read(source, labels, folder)
        pairs += _shuffled(found)[: source.limit] if source.limit is not None else found
        licences.append(licence)
    pairs = _limited(pairs, spec.limit)
    values = [labels.rounded(value) if scale.round else value for _, _, value in pairs]
    if len(set(values)) < 2:
        raise TertiumError(
            f"All {len(values)} labels are equal: there is nothing to learn. Check the labels."
        )
    examples = Examples([pair[:2] for pair in pairs], values)
    return StageData(examples, labels, _seen(spec), tuple(licences))


def _texts(spec: DataSpec, folder: Path | None) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Different texts, without blank ones; what is left out is counted."""
    texts: list[str] = []
    licences: list[str] = []
    for source in spec.sources:
        if source.name is None:
            path = Path(str(source.file))
            found, licence = _different(_own(source, path), path), "the user's own"
        else:
            data = benchmarks.load(source.name, split=source.split, folder=folder, text=source.text)
            found, licence = _sentences(data.rows, source.name), data.licence
        texts += _shuffled(found)[: source.limit] if source.limit is not None else found
        licences.append(licence)
    return [(text,) for text in dict.fromkeys(texts)], tuple(licences)


def _own(source: SourceSpec, path: Path) -> Iterable[str]:
    """The rows of a user's file; those of a translation belong to the rows of another."""
    if source.translation_of is None:
        return iter_texts(path)
    pairs = read_translation(Path(source.translation_of), path)
    return [translation for _, translation in pairs]


def _different(texts: Iterable[str], path: Path) -> list[str]:
    stripped = [text.strip() for text in texts]
    filled = [text for text in stripped if text]
    kept = list(dict.fromkeys(filled))
    blank, repeated = len(stripped) - len(filled), len(filled) - len(kept)
    if blank or repeated:
        warnings.warn(
            f"{path}: {blank:,} blank and {repeated:,} repeated texts were left out, "
            f"{len(kept):,} are used.",
            TertiumWarning,
            stacklevel=2,
        )
    return kept


def _sentences(rows: Iterable[Row], name: str) -> list[str]:
    """The texts of a benchmark set, of single sentences or of pairs."""
    texts: list[str] = []
    for row in rows:
        if isinstance(row, Sentence):
            texts.append(row.sentence)
        elif isinstance(row, SentencePair):
            texts += [row.sentence1, row.sentence2]
        else:
            raise TertiumError(f"{name} holds {type(row).__name__} rows, not single texts.")
    return list(dict.fromkeys(texts))


def _triplets(spec: DataSpec, folder: Path | None) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    licences: list[str] = []
    for source in spec.sources:
        if source.name is None:
            found: list[Row] = [*iter_rows(Path(str(source.file)), Triplet)]
            licence = "the user's own"
        else:
            data = benchmarks.load(source.name, split=source.split, folder=folder, text=source.text)
            found, licence = list(data.rows), data.licence
        if not all(isinstance(row, Triplet) for row in found):
            raise TertiumError(f"{source.name} holds {type(found[0]).__name__} rows, not triplets.")
        texts = [(r.anchor, r.positive, r.hard_negative) for r in found if isinstance(r, Triplet)]
        rows += _shuffled(texts)[: source.limit] if source.limit is not None else texts
        licences.append(licence)
    return rows, tuple(licences)


def _hold_out(
    texts: list[tuple[str, ...]],
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """A tenth of the texts, not too many, for choosing the checkpoint; none of too few."""
    count = min(len(texts) // 10, _MOST_HELD_OUT)
    if count < _LEAST_HELD_OUT:
        return texts, ()
    mixed = _shuffled(texts)
    return mixed[count:], tuple(text for (text,) in mixed[:count])


def _shuffled(items: list[T]) -> list[T]:
    """Always the same order, whatever the seed of the run: all runs see the same examples."""
    return random.Random(0).sample(items, len(items))


def _hashed_subset(texts: list[tuple[str, ...]], size: int, *, seed: int) -> list[tuple[str, ...]]:
    """The examples with the smallest hashes: the same for all methods, each size within the next.

    The order of the source does not matter.
    """
    return sorted(texts, key=lambda text: _digest([text], salt=f"{seed}"))[:size]


def _digest(texts: Iterable[tuple[str, ...]], *, salt: str = "") -> str:
    found = hashlib.sha256(salt.encode())
    for sides in texts:
        found.update("\0".join(sides).encode(errors="replace") + b"\n")
    return found.hexdigest()


def _limited(items: list[T], limit: int | None) -> list[T]:
    return items if limit is None else random.Random(0).sample(items, min(limit, len(items)))


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
