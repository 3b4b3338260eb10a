"""The score that selects the checkpoint, on STS-B's development set or on held-out data."""

import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tertium.data import benchmarks
from tertium.errors import TertiumError, TertiumWarning
from tertium.evaluation import spearman
from tertium.evaluation.metrics import cosines
from tertium.functional import info_nce
from tertium.models import ConditionalScorer, Encoder
from tertium.models.tokens import TokenizationStats
from tertium.recipes.schema import SelectSpec, StageSpec
from tertium.recipes.triples import TripleData
from tertium.training.health import Measurement, measure
from tertium.training.module import ConditionalModule

__all__ = ["build_selection", "recognition", "resolve_selection", "triple_selection"]

_TEMPERATURE = 0.05
_DAMAGE = 0.2
_SAMPLE = 512


def resolve_selection(stage: StageSpec, *, folder: Path | None) -> StageSpec:
    """The stage with a selection that is possible: without STS-B, part of the data is held out."""
    select, kind = stage.select, stage.data.kind
    if select is None or select.task != "STS-B" or kind not in ("texts", "graded"):
        return stage
    try:
        benchmarks.load(select.task, split=select.split, folder=folder, text=select.text)
    except TertiumError:
        instead = "texts that are held out choose it, without labels"
        if kind == "graded":
            instead = "a tenth of the pairs is held out and chooses it"
        warnings.warn(
            f"STS-B is not here to choose the checkpoint: {instead}.",
            TertiumWarning,
            stacklevel=2,
        )
        changed = select.model_copy(update={"task": "held-out"})
        return stage.model_copy(update={"select": changed})
    return stage


def build_selection(
    spec: SelectSpec,
    encoder: Encoder,
    *,
    folder: Path | None,
    held_out: Sequence[str] = (),
    held_out_pairs: Sequence[tuple[str, str, float]] = (),
) -> Callable[[], Measurement] | None:
    """A function that evaluates the encoder in training; None if too little could be held out."""
    if spec.task == "held-out":
        if held_out_pairs:
            return _by_grade(encoder, held_out_pairs)
        if held_out:
            return _label_free(encoder, held_out)
        warnings.warn(
            "There are too few examples to hold any out: no checkpoint is chosen, the last is "
            "kept.",
            TertiumWarning,
            stacklevel=2,
        )
        return None
    data = benchmarks.load(spec.task, split=spec.split, folder=folder, text=spec.text)
    return _by_grade(encoder, [(row.sentence1, row.sentence2, row.score) for row in data.rows])


def triple_selection(
    material: TripleData, module: ConditionalModule, *, precision: str = "float32"
) -> Callable[[], Measurement] | None:
    """A function that computes Spearman's correlation on the held-out triples; None without them.

    With precision ``bf16`` they are scored in bfloat16, as in training.
    """
    if not material.choosing or material.labels is None:
        return None
    labels = material.labels
    gold = np.array([row.label for row in material.choosing])
    triples = [row.texts for row in material.choosing]

    def select() -> Measurement:
        scorer = ConditionalScorer(module.encoder, module.trained_head, labels)
        device = module.encoder.device.type
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            found = scorer.score_items(triples, truncation=TokenizationStats())
        return Measurement(score=100 * spearman(gold, found))

    return select


def recognition(encoder: Encoder, texts: Sequence[str]) -> float:
    """How well texts are recognised from a damaged copy; 0 is perfect.

    The negated InfoNCE loss between every text and the same text without a fifth of its words, with
    all other texts as negatives. It needs no labels and no dropout, and rewards the aims of
    contrastive training: alignment of the two forms and uniformity of all texts.
    """
    whole = _quietly(encoder, texts)
    damaged = _quietly(encoder, [_damaged(text) for text in texts])
    return -float(info_nce(damaged, whole, temperature=_TEMPERATURE).mean())


def _quietly(encoder: Encoder, texts: Sequence[str]) -> Tensor:
    """Embeddings without a progress bar, and without repeated warnings about cut texts."""
    found: Tensor = encoder.encode(
        list(texts), output="torch", progress=False, truncation=TokenizationStats()
    )
    return found.cpu()


def _by_grade(
    encoder: Encoder, pairs: Sequence[tuple[str, str, float]]
) -> Callable[[], Measurement]:
    texts = [text for first, second, _ in pairs for text in (first, second)]
    gold = np.array([grade for *_, grade in pairs])

    def select() -> Measurement:
        rows = _quietly(encoder, texts)
        score = 100 * spearman(gold, cosines(rows[0::2].numpy(), rows[1::2].numpy()))
        return measure(score, rows[:_SAMPLE])

    return select


def _label_free(encoder: Encoder, texts: Sequence[str]) -> Callable[[], Measurement]:
    def select() -> Measurement:
        return measure(recognition(encoder, texts), _quietly(encoder, texts))

    return select


def _damaged(text: str) -> str:
    """The text without a fifth of its words, always the same ones; at least one is kept."""
    words = text.split()
    chance = random.Random(text)
    kept = [word for word in words if chance.random() >= _DAMAGE]
    return " ".join(kept or words[:1])
