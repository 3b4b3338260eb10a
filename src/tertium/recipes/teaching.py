"""A conditional model that teaches another: scores in addition to labels, and more triples."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from tertium.data.labels import OrderedLabels
from tertium.data.overlap import pair_key
from tertium.errors import TertiumError
from tertium.files import atomic_path
from tertium.models import ConditionalAverage, Encoder, load
from tertium.models.base import TripleScorer
from tertium.recipes.schema import TeacherSpec
from tertium.training.examples import TripleExamples
from tertium.types import TextTriple

__all__ = ["grader_of", "taught_triples", "unlabelled_triples"]

_NEAR = 12  # nearest sentence pairs, one of which is drawn as a partner


def grader_of(teacher: TeacherSpec | None, labels: OrderedLabels) -> TripleScorer | None:
    """The mean of a teacher's models, which must score triples on the scale of the labels."""
    if teacher is None:
        return None
    models = [load(name) for name in teacher.models]
    for name, model in zip(teacher.models, models, strict=True):
        if not isinstance(model, TripleScorer):
            raise TertiumError(f"{name} takes no conditions: it cannot teach conditional data.")
        if model.scale != (labels.low, labels.high):
            low, high = model.scale
            raise TertiumError(
                f"{name} grades from {low:g} to {high:g}, and the labels go from {labels.low:g} "
                f"to {labels.high:g}: bring them to one scale."
            )
    graders = cast(list[TripleScorer], models)
    return graders[0] if len(graders) == 1 else ConditionalAverage(graders)


def taught_triples(
    examples: TripleExamples,
    grader: TripleScorer,
    teacher: TeacherSpec,
    encoder: Encoder,
    folder: Path,
    *,
    precision: str = "float32",
    progress: bool | None = None,
) -> TripleExamples:
    """The examples with the teacher's share in their targets, and unlabelled ones that it scored.

    Args:
        examples: examples with labels from 0 to 1.
        grader: the teacher.
        teacher: its share, and the number of unlabelled triples per sentence pair.
        encoder: finds sentence pairs that are similar to each other.
        folder: folder for the scores, which a resumed run reads.
        precision: precision of the teacher; ``bf16`` for bfloat16.
        progress: False for no progress on standard error.
    """
    labelled = [cast(TextTriple, triple) for triple in examples.texts]
    extra = unlabelled_triples(labelled, encoder, count=teacher.unlabelled)
    scores = _graded(grader, [*labelled, *extra], folder, precision=precision, progress=progress)
    share = teacher.share or 0.0
    gold = np.asarray(examples.labels, dtype=np.float32)
    blended = (1 - share) * gold + share * scores[: len(labelled)]
    rows = range(len(labelled), len(labelled) + len(extra))
    return replace(
        examples,
        texts=[*labelled, *extra],
        labels=[*blended.tolist(), *scores[len(labelled) :].tolist()],
        groups=(*examples.groups, *((row,) for row in rows)),
    )


def unlabelled_triples(
    triples: Sequence[TextTriple], encoder: Encoder, *, count: int
) -> list[TextTriple]:
    """Up to ``count`` new triples for each sentence pair, formed with similar pairs.

    In turn: the pair under a condition of a similar pair; its first sentence with the first of a
    similar pair; its second sentence with the second of one, both under one of its own conditions.
    """
    if not count:
        return []
    conditions: dict[tuple[str, str], list[str]] = {}
    for first, second, condition in triples:
        conditions.setdefault((first, second), []).append(condition)
    pairs = list(conditions)
    if len(pairs) < 2:
        return []
    near = _neighbours(pairs, encoder)
    known = {(*pair_key(*triple[:2]), triple[2].lower()) for triple in triples}
    chance, made = random.Random(0), []
    for at, pair in enumerate(pairs):
        for number in range(count):
            other = pairs[chance.choice(near[at])]
            condition = chance.choice(conditions[other if number % 3 == 0 else pair])
            side = number % 3 - 1
            new = pair if number % 3 == 0 else (pair[side], other[side])
            key = (*pair_key(*new), condition.lower())
            if new[0].strip() != new[1].strip() and key not in known:
                known.add(key)
                made.append((*new, condition))
    return made


def _neighbours(pairs: Sequence[tuple[str, str]], encoder: Encoder) -> list[list[int]]:
    """The nearest other pairs of each, by the sum of both sentences' vectors."""
    texts = [text for pair in pairs for text in pair]
    rows = encoder.encode(texts, progress=False).reshape(len(pairs), 2, -1).sum(axis=1)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    found = []
    for at, row in enumerate(rows):
        likeness = rows @ row
        likeness[at] = -np.inf
        found.append(np.argsort(-likeness, kind="stable")[: min(_NEAR, len(pairs) - 1)].tolist())
    return found


def _graded(
    grader: TripleScorer,
    triples: list[TextTriple],
    folder: Path,
    *,
    precision: str,
    progress: bool | None,
) -> NDArray[np.float32]:
    """Scores from 0 to 1, computed once and kept in ``folder``."""
    digest = hashlib.sha256(f"{grader.fingerprint} {precision}".encode())
    for triple in triples:
        digest.update("\0".join(triple).encode(errors="replace") + b"\n")
    file = folder / f"teacher.{digest.hexdigest()[:16]}.npy"
    if file.exists():
        return cast(NDArray[np.float32], np.load(file))
    device = grader.members[0].encoder.device.type
    with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
        scores = grader.score(triples, progress=progress)
    low, high = grader.scale
    scaled = ((np.asarray(scores) - low) / (high - low)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as temporary, temporary.open("wb") as stream:
        np.save(stream, scaled)
    return scaled
