"""The user's own labelled pairs: figures of models on them, and decisions by a score."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tertium.data.labels import OrderedLabels
from tertium.data.overlap import sentence_key
from tertium.data.shapes import Example, Recognised, Shape, read_examples
from tertium.errors import TertiumError
from tertium.evaluation.calibration import calibrate, log_loss, squared_error
from tertium.evaluation.metrics import (
    bootstrap_counts,
    bootstrap_pearson,
    bootstrap_spearman,
    hundred,
    interval,
    pearson,
    percentile_interval,
    spearman,
)
from tertium.evaluation.thresholds import Counts, Ranking, clopper_pearson, fewest_pairs
from tertium.models.tokens import unique
from tertium.records.decision import Goal, Rule

__all__ = [
    "FEWEST",
    "Aim",
    "LabelledPairs",
    "components",
    "decide",
    "figures",
    "folds_of",
    "resampled",
    "shares",
]

Vector = NDArray[np.float64]
FEWEST = 10  # minimum pairs to fit anything
_FEWEST_OF_A_KIND = 5  # minimum positive and negative pairs
_FOLDS = 5
_THRESHOLDS = 200  # bootstrap samples of a threshold
_BINS = 10  # bins of the calibration error


@dataclass(frozen=True)
class Aim:
    """The goal of a threshold.

    Attributes:
        goal: ``precision``, ``recall`` or ``f1``.
        wanted: the required precision or recall.
        confidence: probability with which it must hold on new pairs.
    """

    goal: Goal = "f1"
    wanted: float | None = None
    confidence: float = 0.9

    def __post_init__(self) -> None:
        if self.wanted is not None and not 0 < self.wanted < 1:
            raise TertiumError(
                f"--{self.goal} {self.wanted:g}: write a share between 0 and 1, such as 0.95."
            )
        if not 0.5 <= self.confidence < 1:
            raise TertiumError(
                f"--confidence {self.confidence:g}: write a share from 0.5 to below 1, such as 0.9."
            )

    @classmethod
    def of(cls, precision: float | None, recall: float | None, confidence: float) -> "Aim":
        """The goal of a precision, a recall or, without either, the best F1."""
        if precision is not None and recall is not None:
            raise TertiumError("Ask for precision or for recall: a threshold can keep one promise.")
        if recall is not None:
            return cls("recall", recall, confidence)
        return cls("f1" if precision is None else "precision", precision, confidence)

    def threshold(
        self,
        ranking: Ranking,
        counts: NDArray[np.int32] | None = None,
        *,
        wanted: float | None = None,
    ) -> float | None:
        """The threshold for the goal, or for another required share; None if there is none."""
        share = self.wanted if wanted is None else wanted
        return ranking.threshold(self.goal, wanted=share, confidence=self.confidence, counts=counts)


@dataclass(frozen=True)
class LabelledPairs:
    """Distinct pairs (or triples with a condition) and their labels, in a fixed order.

    Attributes:
        file: file that they come from.
        items: their texts.
        labels: numbers on the scale, or the mean if a pair was rated more than once.
        scale: scale of the labels.
        binary: whether labels only say yes (1) or no (0).
        ratings: ratings of each pair by rater, NaN if missing.
        notes: how repeated pairs were handled.
    """

    file: str
    items: tuple[tuple[str, ...], ...]
    labels: Vector
    scale: OrderedLabels
    binary: bool
    ratings: Mapping[str, Vector]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, found: Recognised) -> "LabelledPairs":
        """The labelled pairs of a recognised file.

        Raises:
            TertiumError: there are none.
        """
        labels = found.labels
        if labels is None or not (found.shape.labelled or found.shape is Shape.CONDITIONAL):
            raise TertiumError(
                f"{found}. Pairs with labels are needed here: two texts and a grade, 0 or 1, or a "
                "word, such as the columns sentence1, sentence2 and label."
            )
        examples = [example for example in read_examples(found) if example.label is not None]
        binary = found.shape is Shape.BINARY
        return cls.of(examples, labels, binary=binary, file=str(found.file))

    @classmethod
    def of(
        cls, examples: Sequence[Example], scale: OrderedLabels, *, binary: bool, file: str = "pairs"
    ) -> "LabelledPairs":
        """Merge repeated pairs, and sort the pairs by their texts.

        Grades of a repeated pair are averaged. Of yes and no the majority counts, and a tied pair
        is left out.
        """
        groups: dict[tuple[str, ...], list[Example]] = {}
        for example in examples:
            first, second = sorted(map(sentence_key, example.texts[:2]))
            key = (first, second, *map(sentence_key, example.texts[2:]))
            groups.setdefault(key, []).append(example)
        middle = (scale.low + scale.high) / 2
        kept: list[Example] = []
        labels: list[float] = []
        split = list[Example]()
        for _, group in sorted(groups.items()):
            said = [value for each in group for value in _said(each)]
            if len({round(value, 9) for value in _labels(group)}) > 1:
                split.append(group[1])
            value = float(np.mean(said))
            if binary:
                votes = float(np.mean([float(vote > middle) for vote in said]))
                if votes == 0.5:
                    continue
                value = float(votes > 0.5)
            # Of several spellings of a pair, the same one is kept whatever their order.
            kept.append(min(group, key=lambda each: each.texts))
            labels.append(value)
        raters = sorted({name for example in examples for name in example.ratings})
        ratings = {
            name: np.array([example.ratings.get(name, np.nan) for example in kept], np.float64)
            for name in raters
        }
        return cls(
            file=file,
            items=tuple(example.texts for example in kept),
            labels=np.array(labels, np.float64),
            scale=OrderedLabels(0.0, 1.0) if binary else scale,
            binary=binary,
            ratings=ratings,
            notes=_notes(examples, groups, split, left_out=len(groups) - len(kept), file=file),
        )

    def __len__(self) -> int:
        return len(self.items)

    @property
    def headline(self) -> str:
        """The figure that models are compared by."""
        return "average_precision" if self.binary else "spearman"

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The group of each pair; pairs that share sentences are in one group."""
        return components(self.items)

    def subset(self, rows: NDArray[np.bool_]) -> "LabelledPairs":
        """Some of the pairs."""
        return replace(
            self,
            items=tuple(itertools.compress(self.items, rows)),
            labels=self.labels[rows],
            ratings={name: said[rows] for name, said in self.ratings.items()},
        )

    def positive(self, positive: str | float | None) -> tuple[NDArray[np.bool_] | None, str | None]:
        """Which pairs count as yes, and the same in words; None twice for grades without a limit.

        Args:
            positive: the lowest label that counts as yes (default: yes, or the last word).
        """
        if isinstance(positive, float):
            positive = f"{positive:g}"
        if self.binary:
            if positive not in (None, "1", *(self.scale.names or ())):
                raise TertiumError(
                    f"--positive {positive}: the labels of {self.file} already say yes or no. "
                    "Leave it out."
                )
            return self.labels > 0.5, "label 1"
        if positive is None:
            if self.scale.names is None:
                return None, None
            positive = self.scale.names[-1]
        try:
            least = self.scale.value(positive)
        except ValueError:
            raise TertiumError(
                f"--positive {positive}: write the lowest grade that counts as yes."
            ) from None
        said = f"label {positive}" if least == self.scale.high else f"labels from {positive} on"
        return self.labels >= least - 1e-9, said

    def check(self, positive: NDArray[np.bool_] | None) -> None:
        """Raise if there are too few pairs, or too few of a kind."""
        pairs = f"{len(self):,} pair{'' if len(self) == 1 else 's'}"
        if len(self) < FEWEST:
            why = "".join(f" ({note.removeprefix(f'{self.file}: ')})" for note in self.notes[-1:])
            raise TertiumError(
                f"{self.file} has {pairs} with a label{why}, and at least {FEWEST} are needed; 200 "
                "give useful figures. Label more: tertium label"
            )
        if np.ptp(self.labels) == 0:
            raise TertiumError(
                f"{self.file}: all {pairs} have the same label, so nothing can be decided by them. "
                "Add pairs with other labels."
            )
        if positive is None:
            return
        for word, found in (("yes", int(positive.sum())), ("no", int((~positive).sum()))):
            if found < _FEWEST_OF_A_KIND:
                raise TertiumError(
                    f"{self.file}: only {found} of {pairs} count as {word}, and at least "
                    f"{_FEWEST_OF_A_KIND} of each kind are needed. Label more, or choose another "
                    "--positive."
                )


def _said(example: Example) -> list[float]:
    """Every rating of a pair, or its label."""
    return [*example.ratings.values()] or _labels([example])


def _labels(examples: Sequence[Example]) -> list[float]:
    return [float(each.label) for each in examples if each.label is not None]


def _notes(
    examples: Sequence[Example],
    groups: Mapping[Any, list[Example]],
    split: list[Example],
    *,
    left_out: int,
    file: str,
) -> tuple[str, ...]:
    notes = []
    repeated = [group for group in groups.values() if len(group) > 1]
    if repeated:
        first = min(repeated, key=lambda group: group[1].line)
        notes.append(
            f"{file}: {len(repeated):,} of {len(groups):,} pairs occur more than once and are "
            f"counted once, first in lines {first[0].line} and {first[1].line}"
        )
    if split:
        line = min(example.line for example in split)
        fate = "as many say yes as no: left out" if left_out else "the mean or the majority counts"
        number = left_out or len(split)
        have = "pair has" if number == 1 else "pairs have"
        notes.append(
            f"{file}: {number:,} {have} contradictory labels, first in line {line}; {fate}"
        )
    return tuple(notes)


def components(items: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """The component of each pair, by number: pairs that share a sentence are in the same one.

    Pairs may be connected through others. Case, white space and punctuation are ignored.

    >>> components([("a", "b"), ("c", "d"), ("B!", "e")]).tolist()
    [0, 1, 0]
    """
    above: dict[str, str] = {}

    def root(key: str) -> str:
        while above.setdefault(key, key) != key:
            above[key] = above[above[key]]
            key = above[key]
        return key

    for first, second, *_ in items:
        one, two = root(sentence_key(first)), root(sentence_key(second))
        above[max(one, two)] = min(one, two)
    return unique(root(sentence_key(first)) for first, *_ in items)[1]


def folds_of(pairs: LabelledPairs, *, folds: int = _FOLDS, seed: int = 0) -> NDArray[np.int64]:
    """The fold of each pair; folds are of similar size, and pairs that share sentences together.

    The order of components comes from hashing a sentence of each with the seed, so it depends on
    nothing else. All pairs are in fold 0 if one component contains most of them.
    """
    groups = pairs.groups
    sizes = np.bincount(groups)
    names = [""] * len(sizes)
    for group, item in zip(groups, pairs.items, strict=True):
        name = min(map(sentence_key, item[:2]))
        names[group] = min(names[group] or name, name)
    drawn = [hashlib.sha256(f"{seed} {name}".encode()).hexdigest() for name in names]
    filled = np.zeros(min(folds, len(sizes)), np.int64)
    fold = np.zeros(len(sizes), np.int64)
    for group in sorted(range(len(sizes)), key=lambda group: (-sizes[group], drawn[group])):
        fold[group] = int(np.argmin(filled))
        filled[fold[group]] += sizes[group]
    if len(filled) < 2 or filled.max() > 0.8 * filled.sum():
        return np.zeros(len(groups), np.int64)
    return fold[groups]


def resampled(pairs: LabelledPairs, *, resamples: int, seed: int) -> NDArray[np.int32] | None:
    """Bootstrap samples of whole components; None for none."""
    if not resamples:
        return None
    counts = bootstrap_counts(int(pairs.groups.max()) + 1, resamples=resamples, seed=seed)
    return np.asarray(counts[:, pairs.groups])


def figures(
    pairs: LabelledPairs,
    scores: Vector,
    positive: NDArray[np.bool_] | None,
    counts: NDArray[np.int32] | None,
) -> dict[str, Any]:
    """Agreement of scores with labels: each figure times 100 with its interval.

    Grades have Spearman's and Pearson's correlation; yes and no have average precision, the area
    under the ROC curve, and the F1 of the best threshold in hindsight.
    """
    found: dict[str, Any] = {}
    if not pairs.binary:
        for name, value, sampled in (
            ("spearman", spearman, bootstrap_spearman),
            ("pearson", pearson, bootstrap_pearson),
        ):
            samples = None if counts is None else sampled(pairs.labels, scores, counts)
            found[name] = estimate(value(pairs.labels, scores), samples)
    if positive is not None:
        ranking = Ranking(positive, scores)
        for name, measure in (
            ("average_precision", ranking.average_precision),
            ("auc", ranking.auc),
            ("best_f1", ranking.best_f1),
        ):
            samples = None if counts is None else measure(counts)
            found[name] = estimate(float(measure()[0]), samples)
    return found


def estimate(value: float, samples: Vector | None) -> dict[str, Any]:
    """A figure times 100 and its interval, or None without samples."""
    return {"value": hundred(value), "interval": None if samples is None else interval(samples)}


def decide(
    pairs: LabelledPairs,
    scores: Vector,
    positive: NDArray[np.bool_] | None,
    folds: NDArray[np.int64],
    aim: Aim,
    *,
    seed: int = 0,
    or_none: bool = False,
) -> tuple[Rule, dict[str, Any]]:
    """A rule fitted on all pairs, and the figures of rules on held-out folds.

    Args:
        pairs: with labels.
        scores: of a model.
        positive: those to accept; None to fit grades only.
        folds: of each pair, as :func:`folds_of` gives them.
        aim: what the threshold is for.
        seed: for the bootstrap of the threshold.
        or_none: where no threshold keeps the promise, leave it out instead of raising.

    Raises:
        TertiumError: no threshold keeps the promise.
    """
    labels = pairs.labels
    rule: dict[str, Any] = {}
    held: dict[str, Any] = {"folds": int(folds.max()) + 1}
    if not pairs.binary and pairs.scale.names is None:
        scale = (pairs.scale.low, pairs.scale.high)
        grade, losses, graded = calibrate(scores, labels, folds, scale=scale)
        rule["grade"] = grade
        held["grade"] = {
            "method": grade.method,
            "mean_squared_error": losses,
            "mean_absolute_error": float(np.abs(graded - labels).mean()),
            "constant": squared_error(labels, np.full(len(labels), labels.mean())),
        }
    if positive is not None:
        is_so = positive.astype(np.float64)
        probability, losses, likely = calibrate(scores, is_so, folds, scale=None)
        rule["probability"] = probability
        held["probability"] = {
            "method": probability.method,
            "log_loss": losses,
            "brier": squared_error(is_so, likely),
            "calibration_error": hundred(calibration_error(is_so, likely)),
            "constant": log_loss(is_so, np.full(len(is_so), is_so.mean())),
        }
        ranking = Ranking(positive, scores, pairs.groups)
        threshold = aim.threshold(ranking)
        if threshold is None and not or_none:
            raise _no_promise(pairs, ranking, positive, aim)
        if threshold is not None:
            rule |= {"threshold": threshold, "interval": _spread(pairs, ranking, aim, seed)}
        held["decision"] = _held_out(pairs, scores, positive, folds, aim)
    return Rule(**rule), held


def calibration_error(labels: Vector, likely: Vector) -> float:
    """Mean difference of probability and frequency, in ten bins with equal numbers of pairs."""
    order = np.argsort(likely, kind="stable")
    bins = np.array_split(order, min(_BINS, len(order)))
    return float(
        sum(abs(labels[part].mean() - likely[part].mean()) * len(part) for part in bins)
        / len(order)
    )


def _held_out(
    pairs: LabelledPairs,
    scores: Vector,
    positive: NDArray[np.bool_],
    folds: NDArray[np.int64],
    aim: Aim,
) -> dict[str, Any]:
    """The figures of each fold with thresholds from the other folds."""
    accepted = np.zeros(len(scores), bool)
    without = 0
    for fold in np.unique(folds):
        held = folds == fold
        rest = ~held if (~held).any() else held
        found = aim.threshold(Ranking(positive[rest], scores[rest], pairs.groups[rest]))
        if found is None:
            without += 1
        else:
            accepted[held] = scores[held] >= found
    counts = Counts.of(accepted, positive)
    return {
        **shares(counts),
        "accepted": int(counts.accepted),
        "folds_without_threshold": without,
    }


def shares(counts: Counts) -> dict[str, Any]:
    """Precision, recall and F1 times 100, the first two with Clopper-Pearson intervals."""

    def share(hits: float, trials: float) -> dict[str, Any]:
        if not trials:
            return {"value": None, "interval": None}
        spread = [100 * end for end in clopper_pearson(hits, trials)]
        return {"value": hundred(hits / trials), "interval": spread}

    return {
        "precision": share(counts.right, counts.accepted),
        "recall": share(counts.right, counts.positives),
        "f1": {"value": hundred(counts.f1), "interval": None},
    }


def _spread(pairs: LabelledPairs, ranking: Ranking, aim: Aim, seed: int) -> Any:
    """The 95 % interval of thresholds from bootstrap samples."""
    counts = resampled(pairs, resamples=_THRESHOLDS, seed=seed)
    assert counts is not None
    found = [aim.threshold(ranking, sample) for sample in counts]
    return percentile_interval(np.array([np.nan if x is None else x for x in found], np.float64))


def _no_promise(
    pairs: LabelledPairs, ranking: Ranking, positive: NDArray[np.bool_], aim: Aim
) -> TertiumError:
    """An error that says why no threshold keeps the promise, and what to do."""
    wanted, confidence = aim.wanted or 0.0, aim.confidence
    asked = f"{aim.goal} ≥ {wanted:g} at {round(100 * confidence)} % confidence"
    least, found = fewest_pairs(wanted, confidence), int(positive.sum())
    if found < least:
        return TertiumError(
            f"{pairs.file}: {found} pairs that count as yes are too few to promise {asked}: at "
            f"least {least} are needed, all of them right. Label more, or ask for less."
        )
    lower = (share / 100 for share in range(round(100 * wanted) - 1, 0, -1))
    reached = next((x for x in lower if aim.threshold(ranking, wanted=x) is not None), None)
    best, remedy = "nothing can be promised", "Label"
    if reached is not None:
        best = f"the most that can be promised is {reached:g}"
        remedy = f"Ask for less (--{aim.goal} {reached:g}), label"
    return TertiumError(
        f"{pairs.file}: no threshold has {asked} on {len(pairs):,} pairs: {best}. {remedy} more "
        "pairs, or take another model."
    )
