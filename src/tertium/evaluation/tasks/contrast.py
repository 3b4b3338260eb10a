"""Small changes of meaning: does a paraphrase score above a text that barely differs in words?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data import benchmarks
from tertium.data.benchmarks import Loaded
from tertium.data.contrasts import ITEMS, items
from tertium.data.contrasts.opposites import Opposition, everyday_opposites, opposites
from tertium.data.contrasts.rewording import reworded
from tertium.errors import TertiumError
from tertium.evaluation.metrics import bootstrap_accuracy, hundred, interval
from tertium.evaluation.tasks.base import Context, EmbeddingCache, Outcome, against_baseline
from tertium.files import sha256

__all__ = [
    "NEGATION",
    "ContrastTask",
    "Margins",
    "NegationTask",
    "OppositeTask",
    "contrast_margins",
    "contrast_values",
]

NEGATION = ("negation", "antonym", "double negation")  # kinds that negate a text
_CONTRAST = (
    "share of texts whose paraphrase scores higher than a text that differs in a word or two and "
    "says something else; gap: mean difference of the two scores, as a share of the scale"
)
_OPPOSITE = (
    "share of texts whose opposite denied scores higher than both the text denied and its opposite "
    "(three options), for opposites that no recipe here learns from"
)
_NEGATION = (
    "share of sentences that score higher with themselves lightly reworded (by rule) than with "
    "their negation; low: share of negations in the lower half of the scale"
)
Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """Differences of scores that should be positive, as shares of a model's scale.

    Attributes:
        gaps: score of the nearer text minus that of the farther one.
        groups: which items belong to each named group.
    """

    gaps: Samples
    groups: Mapping[str, NDArray[np.bool_]]

    def values(self, *, resamples: int, seed: int) -> dict[str, dict[str, Any]]:
        """Accuracy with its interval, mean gap and size of every group."""
        return {
            name: _figures(self.gaps[rows], resamples=resamples, seed=seed)
            for name, rows in self.groups.items()
        }


def _figures(gaps: Samples, *, resamples: int, seed: int) -> dict[str, Any]:
    right = gaps > 0
    samples = bootstrap_accuracy(right, resamples=resamples, seed=seed) if resamples else None
    return {
        "accuracy": hundred(float(right.mean())),
        "interval": None if samples is None else interval(samples),
        "gap": hundred(float(gaps.mean())),
        "items": len(gaps),
    }


@cache
def _groups() -> dict[str, NDArray[np.bool_]]:
    """All kinds, then the negating ones, by the halves for choosing and for reporting."""
    kinds = np.array([item.kind for item in items()])
    halves = np.array([item.half for item in items()])
    denied = np.isin(kinds, NEGATION)
    found = {kind: kinds == kind for kind in dict.fromkeys(kinds.tolist())}
    found["negation kinds"] = denied
    for half in ("choosing", "reporting"):
        found[f"negation kinds, {half} half"] = denied & (halves == half)
        found[f"all, {half} half"] = halves == half
    return found


def contrast_margins(cache: EmbeddingCache) -> Margins:
    """The margins of a model on the contrasts that come with tertium."""
    near = _scores(cache, [(item.text, item.nearer) for item in items()])
    far = _scores(cache, [(item.text, item.farther) for item in items()])
    return Margins(near - far, _groups())


def contrast_values(cache: EmbeddingCache, *, resamples: int, seed: int) -> dict[str, Any]:
    """Accuracy and gap over all contrasts, by kind and by half."""
    return _contrast_values(contrast_margins(cache), resamples=resamples, seed=seed)


def _contrast_values(margins: Margins, *, resamples: int, seed: int) -> dict[str, Any]:
    whole = _figures(margins.gaps, resamples=resamples, seed=seed)
    groups = margins.values(resamples=resamples, seed=seed)
    halves = {name: groups.pop(name) for name in list(groups) if name.endswith(" half")}
    return {**whole, "kinds": groups, "halves": halves}


def _scores(cache: EmbeddingCache, pairs: Sequence[tuple[str, str]]) -> Samples:
    """Scores as shares of the scale."""
    model = cache.model
    if model.takes_conditions:
        raise TertiumError(f"{model.name} takes conditions: contrasts are pairs without one.")
    low, high = model.scale
    return (cache.scores(pairs) - low) / (high - low)


def _package_data(name: str) -> Loaded:
    """Items that come with tertium."""
    digest = sha256(ITEMS)
    return Loaded(name, "all", "raw", (), "tertium", digest, None, "as tertium's code")


def _outcome(
    context: Context,
    margins: Margins,
    other: Margins | None,
    values: dict[str, Any],
    protocol: str,
    data: Loaded,
) -> Outcome:
    """The figures, and the paired difference from a baseline."""
    options = {"resamples": context.resamples, "seed": context.seed}
    right = margins.gaps > 0
    samples = bootstrap_accuracy(right, **options) if context.resamples else None
    if other is None or context.baseline is None or samples is None:
        return Outcome(values, protocol, data, samples)
    beaten = other.gaps > 0
    differences = samples - bootstrap_accuracy(beaten, **options)
    difference = float(right.mean() - beaten.mean())
    entry = against_baseline(context.baseline, float(beaten.mean()), difference, differences)
    return Outcome({**values, "baseline": entry}, protocol, data, samples, differences)


@dataclass(frozen=True)
class ContrastTask:
    """Minimal pairs of eleven kinds, written for tertium; nothing is downloaded."""

    name: str
    headline: str = "accuracy"

    def run(self, context: Context) -> Outcome:
        """Score every text with its paraphrase and with a text that only looks similar."""
        margins = contrast_margins(context.cache)
        values = _contrast_values(margins, resamples=context.resamples, seed=context.seed)
        other = None if context.baseline is None else contrast_margins(context.baseline)
        return _outcome(context, margins, other, values, _CONTRAST, _package_data(self.name))


@dataclass(frozen=True)
class OppositeTask:
    """The negated opposite must score above the negated text and the opposite; chance is 1/3."""

    name: str
    headline: str = "accuracy"
    written: bool = False  # one by one, not made of lists and templates

    def run(self, context: Context) -> Outcome:
        """Score three options for every text, without opposites that recipes learn from."""
        margins = self._margins(context.cache)
        other = None if context.baseline is None else self._margins(context.baseline)
        options = {"resamples": context.resamples, "seed": context.seed}
        values = _figures(margins.gaps, **options)
        if margins.groups:
            values["halves"] = margins.values(**options)
        return _outcome(context, margins, other, values, _OPPOSITE, _package_data(self.name))

    def _margins(self, cache: EmbeddingCache) -> Margins:
        kept: Sequence[Opposition] = everyday_opposites()
        if not self.written:
            kept = [each for each in opposites(subjects=2) if not each.learned]
        same, denied, opposite = (
            _scores(cache, [(each.text, getattr(each, side)) for each in kept])
            for side in ("same", "denied", "opposite")
        )
        halves = {
            f"{half} half": np.array([each.half == half for each in kept])
            for half in (("choosing", "reporting") if self.written else ())
        }
        return Margins(same - np.maximum(denied, opposite), halves)


@dataclass(frozen=True)
class NegationTask:
    """Sentences and their negations from another source: the tenth that no recipe learns from."""

    name: str
    headline: str = "accuracy"

    def run(self, context: Context) -> Outcome:
        """Score every sentence with a rewording of itself, and with its negation."""
        data = benchmarks.load("negation-pairs", split="test", folder=context.folder)
        margins, denied = self._margins(context.cache, data)
        other = None
        if context.baseline is not None:
            other, _ = self._margins(context.baseline, data)
        values = {
            **_figures(margins.gaps, resamples=context.resamples, seed=context.seed),
            "negated": hundred(float(denied.mean())),
            "low": hundred(float((denied < 0.5).mean())),
        }
        return _outcome(context, margins, other, values, _NEGATION, data)

    @staticmethod
    def _margins(cache: EmbeddingCache, data: Loaded) -> tuple[Margins, Samples]:
        draw = random.Random(0)
        same = [(row.sentence, reworded(row.sentence, draw)) for row in data.rows]
        kept = [at for at, (sentence, other) in enumerate(same) if sentence != other]
        near = _scores(cache, [same[at] for at in kept])
        far = _scores(cache, [(data.rows[at].sentence, data.rows[at].negated) for at in kept])
        return Margins(near - far, {}), far
