"""Reads triples from a recipe's sources, in folds that keep a sentence pair together."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tertium.data import benchmarks
from tertium.data.labels import OrderedLabels
from tertium.data.overlap import PairKey, pair_key
from tertium.data.readers import iter_rows
from tertium.data.rows import ConditionalPair, GradedPair, GradedTriple
from tertium.errors import TertiumError
from tertium.models.base import TripleScorer
from tertium.recipes.data import (
    OWN_TERMS,
    Amount,
    StageData,
    check_variety,
    gathered,
    moved,
    own_pairs,
    seen_in,
)
from tertium.recipes.schema import FoldSpec, SelectSpec, SourceSpec, StageSpec
from tertium.recipes.teaching import grader_of
from tertium.training.examples import Rewording, TripleExamples
from tertium.types import TextTriple

__all__ = ["LabelledTriple", "TripleData", "fold_of", "load_triples"]


@dataclass(frozen=True)
class LabelledTriple:
    """A triple and its label on the recipe's scale."""

    texts: TextTriple
    label: float

    @property
    def pair(self) -> PairKey:
        """The key shared by all triples of the same sentences."""
        return pair_key(*self.texts[:2])


@dataclass(frozen=True)
class TripleData(StageData):
    """A stage's triples, and where they came from.

    Attributes:
        choosing: triples that select the checkpoint, if any.
        grader: a model whose scores are learned in addition to the labels.
    """

    choosing: tuple[LabelledTriple, ...] = ()
    grader: TripleScorer | None = None


def load_triples(stage: StageSpec, *, folder: Path | None) -> TripleData:
    """The triples of all sources, without those that are held out."""
    spec = stage.data
    if spec.labels is None:
        raise TertiumError(f"Stage {stage.name}: conditional data need labels.")
    labels = spec.labels.build()
    reader = _read_pairs if spec.kind == "graded" else _read

    def read(source: SourceSpec) -> tuple[list[LabelledTriple], str]:
        return reader(source, labels, folder, check_rows=spec.published is None)

    found, licences, counts = gathered(spec, read, _limited)
    found = _limited(found, spec.limit)
    trained, held_out = _split(found, spec.folds)
    check_variety([row.label for row in trained])
    together = any(objective.declares.needs_groups for objective in stage.objectives)
    examples = _examples(trained, labels, together=together)
    if spec.reword:
        examples = replace(examples, rewording=Rewording(spec.reword, stage.train.seed))
    grader, seen = grader_of(stage.teacher, labels), seen_in(spec)
    if grader is not None:
        seen = (*seen, *grader.training_data)  # the student learns what the teacher has seen
    return TripleData(
        examples=examples,
        labels=labels,
        choosing=_choosing(stage.select, held_out, labels, folder),
        seen=seen,
        licences=licences,
        amount=Amount.count(spec, counts, kept=len(found)),
        grader=grader,
    )


def fold_of(pair: PairKey, count: int) -> int:
    """Which of ``count`` folds a sentence pair belongs to, by a hash of the pair.

    All conditions of a pair are in the same fold, and so is the pair with its sentences swapped.
    """
    digest = hashlib.sha256("\0".join(pair).encode(errors="replace")).digest()
    return int.from_bytes(digest[:8], "big") % count


def _split(
    rows: Sequence[LabelledTriple], folds: FoldSpec | None
) -> tuple[list[LabelledTriple], list[LabelledTriple]]:
    if folds is None:
        return list(rows), []
    inside = [fold_of(row.pair, folds.count) == folds.held_out for row in rows]
    trained = [row for row, held in zip(rows, inside, strict=True) if not held]
    held_out = [row for row, held in zip(rows, inside, strict=True) if held]
    if not trained or not held_out:
        raise TertiumError(
            f"{len(rows)} triples are too few for {folds.count} folds: one side is empty. Give "
            "more of them, fewer folds, or none: --set stages.0.data.folds=null"
        )
    return trained, held_out


def _choosing(
    select: SelectSpec | None,
    held_out: list[LabelledTriple],
    labels: OrderedLabels,
    folder: Path | None,
) -> tuple[LabelledTriple, ...]:
    if select is None:
        return ()
    if select.task == "held-out":
        return tuple(held_out)
    read = _read if select.task == "C-STS" else _read_pairs
    return tuple(read(SourceSpec(name=select.task, split=select.split), labels, folder)[0])


def _examples(
    rows: Sequence[LabelledTriple], labels: OrderedLabels, *, together: bool
) -> TripleExamples:
    """Examples with labels from 0 to 1; if ``together``, one per pair with all its conditions."""
    span = labels.high - labels.low
    groups: dict[object, list[int]] = {}
    for at, row in enumerate(rows):
        groups.setdefault(row.pair if together else at, []).append(at)
    return TripleExamples(
        [row.texts for row in rows],
        [(row.label - labels.low) / span for row in rows],
        groups=tuple(tuple(members) for members in groups.values()),
    )


def _limited(rows: list[LabelledTriple], limit: int | None) -> list[LabelledTriple]:
    """At most ``limit`` triples, by whole sentence pairs and a fixed shuffle."""
    if limit is None or limit >= len(rows):
        return rows
    pairs = list(dict.fromkeys(row.pair for row in rows))
    order = {pair: at for at, pair in enumerate(random.Random(0).sample(pairs, len(pairs)))}
    return sorted(rows, key=lambda row: order[row.pair])[:limit]


def _read(
    source: SourceSpec, labels: OrderedLabels, folder: Path | None, *, check_rows: bool = True
) -> tuple[list[LabelledTriple], str]:
    if source.name is None:
        path = Path(str(source.file))
        scale = (labels.low, labels.high)
        own = iter_rows(path, GradedTriple, scale=scale, columns=source.mapped(), split=source.part)
        return [_labelled(row, row.score) for row in own], OWN_TERMS
    data = benchmarks.load(source.name, split=source.split, folder=folder, check_rows=check_rows)
    if not isinstance(data.rows[0], ConditionalPair):
        raise TertiumError(f"{source.name} has no conditions: take C-STS, or a file of your own.")
    return [_labelled(row, _grade(row, source, labels)) for row in data.rows], data.licence


def _read_pairs(
    source: SourceSpec, labels: OrderedLabels, folder: Path | None, *, check_rows: bool = True
) -> tuple[list[LabelledTriple], str]:
    """Graded pairs as triples without a condition."""
    if source.name is None:
        own = own_pairs(source, labels)
        return [
            LabelledTriple((first, second, ""), label) for first, second, label in own
        ], OWN_TERMS
    data = benchmarks.load(
        source.name, split=source.split, folder=folder, text=source.text, check_rows=check_rows
    )
    if not isinstance(data.rows[0], GradedPair):
        raise TertiumError(f"{source.name} has no graded pairs.")
    return [
        LabelledTriple((row.sentence1, row.sentence2, ""), moved(row.score, source.name, labels))
        for row in data.rows
    ], data.licence


def _labelled(row: ConditionalPair | GradedTriple, label: float) -> LabelledTriple:
    return LabelledTriple((row.sentence1, row.sentence2, row.condition), label)


def _grade(row: ConditionalPair, source: SourceSpec, labels: OrderedLabels) -> float:
    if row.label is None:
        raise TertiumError(
            f"The {source.split} part of {source.name} hides its labels: train on another part."
        )
    return moved(row.label, str(source.name), labels)
