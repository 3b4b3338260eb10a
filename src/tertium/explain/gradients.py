"""Which words made the score: integrated gradients, by captum."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tertium.explain.tokens import Table, TokenizedItem
from tertium.explain.words import Word

__all__ = ["Attributed", "Gradients", "integrate_gradients", "word_gradients"]

# Ids and mask of one item's sequences, repeated, to one score per repetition.
Forward = Callable[[Int[Tensor, "rows t"], Int[Tensor, "rows t"]], Float[Tensor, " n"]]
_TOKENS = 8192  # of one pass
_STEPS = (32, 64, 128, 256, 512)
_ENOUGH = 0.01  # relative error of the integral
_LEAST = 0.01  # of the scale: no error is measured against a smaller change than this


@dataclass(frozen=True)
class Gradients:
    """Contributions of words by integrated gradients.

    Attributes:
        contributions: of each word of both texts; those of a text and its baseline add up to the
            score.
        baselines: the score where the first text is neutral, and where the second is.
        error: by how much a sum misses the difference of score and baseline, relative to it; the
            larger of both texts'.
        steps: points of the integral.
    """

    contributions: tuple[tuple[float, ...], ...]
    baselines: tuple[float, ...]
    error: float
    steps: int


@dataclass(frozen=True)
class Attributed:
    """What each token contributes, by integrated gradients.

    Attributes:
        values: one per token of each sequence; they sum to the difference of the two scores.
        score: of the item.
        baseline: score where every word is replaced by a neutral token.
    """

    values: Float[Tensor, "s t"]
    score: float
    baseline: float


def word_gradients(
    items: Sequence[TokenizedItem],
    words: Sequence[Sequence[Word]],
    *,
    steps: int | None,
    scale: tuple[float, float],
) -> Gradients:
    """Integrated gradients of each word, on the path from a text without meaning.

    All else stays as it is: were both texts neutral, they would be alike. Pieces are added up.

    Args:
        items: as the model reads them; the weighted mean of their scores is explained.
        words: of both texts.
        steps: points on the path (default: ever more of them until the error is small enough).
        scale: lowest and highest score.
    """
    for count in _STEPS if steps is None else (steps,):
        found = _integrated(items, words, count, scale[1] - scale[0])
        if found.error < _ENOUGH:
            break
    return found


def _integrated(
    items: Sequence[TokenizedItem], words: Sequence[Sequence[Word]], steps: int, reach: float
) -> Gradients:
    """The weighted mean over items: integrated gradients are linear in the score."""
    values, baselines, errors = [], [], []
    for text, own in enumerate(words):
        totals, score, baseline = [0.0] * len(own), 0.0, 0.0
        for item in items:
            found = integrate_gradients(
                item.forward,
                item.tables,
                item.ids,
                item.mask,
                baseline=item.without(text),
                steps=steps,
            )
            score += item.weight * found.score
            baseline += item.weight * found.baseline
            for row, tokens in zip(item.places, found.values.tolist(), strict=True):
                for place, value in zip(row, tokens, strict=True):
                    if place is not None and place[0] == text:
                        totals[place[1]] += item.weight * value
        values.append(tuple(totals))
        baselines.append(baseline)
        change = score - baseline
        errors.append(abs(sum(totals) - change) / max(abs(change), _LEAST * reach))
    return Gradients(tuple(values), tuple(baselines), max(errors), steps)


def integrate_gradients(
    forward: Forward,
    tables: Sequence[Table],
    ids: Int[Tensor, "s t"],
    mask: Int[Tensor, "s t"],
    *,
    baseline: Int[Tensor, "s t"],
    steps: int,
) -> Attributed:
    """Sundararajan et al. (2017), on the path from one item's word vectors to another's.

    Args:
        forward: ids and mask of n repetitions of the item, one after another, to n scores.
        tables: where ids are looked up: one table, or one for each tower or member of a model.
        ids: the item's sequences, padded to the same length.
        mask: 1 for real tokens.
        baseline: ids of the neutral item.
        steps: points on the path; the error falls with their number.
    """
    from captum.attr import LayerIntegratedGradients

    width = ids.shape[1]

    def score(items: Tensor, masks: Tensor) -> Tensor:
        return forward(items.reshape(-1, width), masks.reshape(-1, width))

    with warnings.catch_warnings():  # tables do not depend on one another, of which captum warns
        warnings.filterwarnings("ignore", message="Multiple layers provided")
        attribution: Any = LayerIntegratedGradients(score, [table.module for table in tables])
    found = attribution.attribute(
        ids[None],
        baselines=baseline[None],
        additional_forward_args=(mask[None],),
        n_steps=steps,
        internal_batch_size=max(len(ids), _TOKENS // width),
        method="gausslegendre",
    )
    values = torch.zeros(ids.shape)
    for table, part in zip(tables, found, strict=True):
        values[table.rows] += part.detach().float().sum(dim=-1).cpu()
    with torch.inference_mode():
        whole, empty = (float(score(item[None], mask[None])) for item in (ids, baseline))
    return Attributed(values, whole, empty)
