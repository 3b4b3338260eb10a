"""Contributions of words by integrated gradients, with captum."""

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
_TOKENS = 8192  # tokens per pass
_STEPS = (32, 64, 128, 256, 512)
_ENOUGH = 0.01  # relative error of the integral
_LEAST = 0.01  # of the scale: errors are relative to a change of at least this


@dataclass(frozen=True)
class Gradients:
    """Contributions of words by integrated gradients.

    Attributes:
        contributions: contribution of each word of both texts; those of one text and its baseline
            add up to the score.
        baselines: the score with the first text neutral, and with the second.
        error: relative error of the sum against the difference of score and baseline; the larger
            of both texts.
        steps: points of the integral.
    """

    contributions: tuple[tuple[float, ...], ...]
    baselines: tuple[float, ...]
    error: float
    steps: int


@dataclass(frozen=True)
class Attributed:
    """Contributions of tokens by integrated gradients.

    Attributes:
        values: one per token of each sequence; they sum to the difference of the two scores.
        score: score of the item.
        baseline: score with every word replaced by a neutral token.
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

    Only one text at a time is neutral: two neutral texts would be similar. Word pieces are summed.

    Args:
        items: the model's inputs; the weighted mean of their scores is explained.
        words: words of both texts.
        steps: points on the path (default: increased until the error is small enough).
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
        forward: from ids and mask of n repetitions of the item, one after another, to n scores.
        tables: embedding tables: one, or one for each tower or member of a model.
        ids: the item's sequences, padded to the same length.
        mask: 1 for real tokens.
        baseline: ids of the neutral item.
        steps: points on the path; more points have a smaller error.
    """
    from captum.attr import LayerIntegratedGradients

    width = ids.shape[1]

    def score(items: Tensor, masks: Tensor) -> Tensor:
        return forward(items.reshape(-1, width), masks.reshape(-1, width))

    with warnings.catch_warnings():  # captum warns in case tables depend on one another
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
