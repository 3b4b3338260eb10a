"""Thresholds and calibrations fitted on labelled pairs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from tertium.records.record import Frozen

__all__ = [
    "VERDICT",
    "Calibration",
    "Decision",
    "DecisionSource",
    "Goal",
    "Measure",
    "Rule",
    "Verdict",
    "verdict_rows",
]

Vector = NDArray[np.float64]
Number = Annotated[float, Field(allow_inf_nan=False)]
Goal = Literal["precision", "recall", "f1"]
Measure = Literal["score", "cosine"]
VERDICT = ("decision", "probability", "grade")  # columns of what a decision says of a pair


class Calibration(Frozen):
    """A monotonic map from scores to grades or probabilities.

    Attributes:
        method: ``isotonic`` is linear between knots; ``platt`` is the logistic function of a line,
            and ``linear`` the line itself.
        low: lowest value it returns.
        high: highest value it returns.
        scores: knots, ascending.
        values: values at the knots.
        slope: slope of the line.
        offset: offset of the line.
    """

    method: Literal["isotonic", "platt", "linear"]
    low: Number
    high: Number
    scores: tuple[Number, ...] = ()
    values: tuple[Number, ...] = ()
    slope: Number = 0.0
    offset: Number = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.scores) != len(self.values) or (self.method == "isotonic") != bool(self.scores):
            raise ValueError("an isotonic calibration has as many values as scores, others none")
        if any(np.diff(self.scores) < 0) or any(np.diff(self.values) < 0) or self.slope < 0:
            raise ValueError("a calibration never falls")
        return self

    def __call__(self, scores: ArrayLike) -> Vector:
        """The grade or probability of each score."""
        found = np.asarray(scores, dtype=np.float64)
        if self.method == "isotonic":
            found = np.interp(found, self.scores, self.values)
        else:
            found = self.slope * found + self.offset
            if self.method == "platt":
                found = 1 / (1 + np.exp(-np.clip(found, -500, 500)))
        return np.asarray(found.clip(self.low, self.high))


class Rule(Frozen):
    """How a score or cosine becomes a decision.

    Attributes:
        threshold: pairs at or above it are accepted; None if only grades were fitted.
        interval: 95 % bootstrap interval of the threshold.
        probability: from score to the probability that a pair should be accepted.
        grade: from score to a grade on the scale of the labels.
    """

    threshold: Number | None = None
    interval: tuple[Number, Number] | None = None
    probability: Calibration | None = None
    grade: Calibration | None = None


class DecisionSource(Frozen):
    """The pairs that a decision was fitted on.

    Attributes:
        file: name of the file.
        sha256: hash of the file.
        pairs: number of pairs used.
        positives: how many of them should be accepted; None for grades without a threshold.
    """

    file: str
    sha256: str
    pairs: int
    positives: int | None = None


@dataclass(frozen=True)
class Verdict:
    """A decision's answer for one pair.

    Attributes:
        name: what is decided, such as ``duplicate``.
        accepted: whether the pair is one; None if there is no threshold.
        probability: the probability that it is one, if fitted.
        grade: its grade on the scale of the labels, if fitted.
    """

    name: str
    accepted: bool | None
    probability: float | None
    grade: float | None

    @property
    def answer(self) -> str | None:
        """``yes``, ``no``, or None if there is no threshold."""
        return None if self.accepted is None else "yes" if self.accepted else "no"

    def __str__(self) -> str:
        """One line.

        >>> print(Verdict("duplicate", True, 0.974, None))
        duplicate: yes, 97 % sure
        >>> print(Verdict("duplicate", False, 0.7, None))
        duplicate: no (70 % likely, and the threshold asks for more)
        """
        if self.accepted is None:
            return "" if self.grade is None else f"grade {self.grade:.2f}"
        said = f"{self.name}: {self.answer}"
        if self.probability is None:
            return said
        sure = self.probability if self.accepted else 1 - self.probability
        if sure >= 0.5:
            return f"{said}, {_percent(sure)} sure"
        doubt = (
            "but the threshold asks for less"
            if self.accepted
            else "and the threshold asks for more"
        )
        return f"{said} ({_percent(self.probability)} likely, {doubt})"

    def to_json(self) -> dict[str, Any]:
        """Its fields under the names of ``VERDICT``."""
        values = (self.answer, self.probability, self.grade)
        return dict(zip(VERDICT, values, strict=True))


class Decision(Frozen):
    """A model's thresholds and calibrations, and the pairs they were fitted on.

    Attributes:
        format: incremented when fields change.
        name: what is decided, such as ``duplicate``.
        goal: what the threshold was chosen for; None if there is none.
        wanted: the requested precision or recall.
        confidence: the confidence with which it holds.
        positive: which labels count as yes, in words.
        by: rules for the model's score and, if that is not its cosine, for the cosine.
        source: the pairs.
        figures: measurements on held-out pairs, as ``tertium fit --json`` prints them.
    """

    format: Literal[1] = 1
    name: str
    goal: Goal | None = None
    wanted: Number | None = None
    confidence: Number | None = None
    positive: str | None = None
    by: dict[Measure, Rule]
    source: DecisionSource
    figures: dict[str, Any] = Field(default_factory=dict)

    def rule(self, measure: Measure = "score") -> Rule:
        """The rule for ``measure``; the score's rule if both are the same number."""
        return self.by.get(measure, self.by["score"])

    def verdicts(self, scores: ArrayLike, *, measure: Measure = "score") -> list[Verdict]:
        """Verdicts for pairs with these scores, or cosines."""
        rule, found = self.rule(measure), np.atleast_1d(np.asarray(scores, dtype=np.float64))
        accepted = None if rule.threshold is None else (found >= rule.threshold).tolist()
        likely = None if rule.probability is None else rule.probability(found).tolist()
        grades = None if rule.grade is None else rule.grade(found).tolist()
        return [
            Verdict(
                self.name,
                None if accepted is None else accepted[at],
                None if likely is None else likely[at],
                None if grades is None else grades[at],
            )
            for at in range(len(found))
        ]

    def reason(self, measure: Measure = "score") -> str:
        """The threshold and where it comes from, in words."""
        threshold = self.rule(measure).threshold
        origin = f"fitted on {self.source.pairs:,} pairs of {self.source.file}"
        if threshold is None:
            return f"grades {origin}"
        aim = "for the best F1"
        if self.goal != "f1":
            aim = (
                f"for {self.goal} ≥ {self.wanted:g} at {_percent(self.confidence or 0)} confidence"
            )
        return f"threshold {threshold:.4f} {aim}, {origin}"

    def to_json(self, measure: Measure = "score") -> dict[str, Any]:
        """The threshold in the JSON output of commands and the server."""
        return {
            "name": self.name,
            "threshold": self.rule(measure).threshold,
            "goal": self.goal,
            "wanted": self.wanted,
            "confidence": self.confidence,
            "pairs": self.source.pairs,
            "file": self.source.file,
        }


def verdict_rows(
    decision: Decision | None, numbers: Iterable[float | None], *, measure: Measure = "cosine"
) -> list[tuple[Any, ...]]:
    """Values for the columns ``VERDICT``; None where there is no decision, or no number."""
    numbers, blank = list(numbers), (None,) * len(VERDICT)
    if decision is None:
        return [blank] * len(numbers)
    known = [number for number in numbers if number is not None]
    found = (tuple(v.to_json().values()) for v in decision.verdicts(known, measure=measure))
    return [blank if number is None else next(found) for number in numbers]


def _percent(share: float) -> str:
    """Whole percent; never 0 or 100 unless it is exactly that."""
    return f"{min(max(round(100 * share), 1), 99) if 0 < share < 1 else round(100 * share)} %"
