"""Why does a model give this score? One answer for every kind of model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tertium.encoders.explanation.occlusion import (
    Place,
    Score,
    SmallestChange,
    occlude,
    smallest_change,
)
from tertium.encoders.explanation.readings import Reading, attribute, word_alignment
from tertium.encoders.explanation.words import Word
from tertium.errors import TertiumError

__all__ = ["Explains", "Explanation", "Gradients"]

_STEPS = 64
Values = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Gradients:
    """Contributions of words by integrated gradients.

    Attributes:
        contributions: of each word of both texts; with ``baseline`` they add up to the score.
        baseline: the score of texts that say nothing.
        error: by how much they miss that, relative to the difference.
    """

    contributions: Values
    baseline: float
    error: float


@dataclass(frozen=True)
class Explanation:
    """One score, word by word.

    Attributes:
        texts: both of them.
        condition: the respect in which they were compared, or None.
        score: of the whole texts.
        scale: lowest and highest score.
        words: of each text.
        occlusion: of each word: by how much the score falls without it.
        alignment: cosine of each word of the first text with each of the second.
        smallest: the fewest words whose removal moves the score by ``moved``.
        moved: how far that is.
        gradients: contributions by integrated gradients, if they were asked for.
    """

    texts: tuple[str, str]
    condition: str | None
    score: float
    scale: tuple[float, float]
    words: tuple[tuple[str, ...], ...]
    occlusion: Values
    alignment: Float[Tensor, "w1 w2"]
    smallest: SmallestChange
    moved: float
    gradients: Gradients | None = None

    def word(self, place: Place) -> str:
        """The word at a place."""
        text, at = place
        return self.words[text][at]


class Explains:
    """What gives a model ``explain``: it tells how it scores, and how it reads an item."""

    scale: tuple[float, float]

    def score_items(self, items: list[tuple[str, ...]]) -> np.ndarray:
        """Scores of pairs, or of triples; beyond the scale if the model goes there."""
        raise NotImplementedError

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        """The item as the model reads it; several where the score is a weighted mean of theirs."""
        raise NotImplementedError

    def explain(
        self,
        a: str,
        b: str,
        *,
        on: str | None = None,
        gradients: bool = False,
        steps: int = _STEPS,
        moved: float | None = None,
    ) -> Explanation:
        """Say which words made the score of a pair.

        Args:
            a: the first text.
            b: the second text.
            on: the respect in which they are compared, for a model that takes conditions.
            gradients: also integrate gradients, which needs captum.
            steps: points of that integral.
            moved: how far the smallest change shall move the score (default: one point, and 0.2 of
                a cosine).
        """
        item = (a, b) if on is None else (a, b, on)
        score: Score = self.score_items
        found = occlude(score, item)
        if not any(found.words):
            raise TertiumError("Neither text has a word: there is nothing to explain.")
        far = (0.2 if self.scale == (-1.0, 1.0) else 1.0) if moved is None else moved
        readings = self.readings(item)
        return Explanation(
            texts=(a, b),
            condition=on,
            score=found.score,
            scale=self.scale,
            words=tuple(tuple(word.text for word in words) for words in found.words),
            occlusion=found.contributions,
            alignment=_mean_alignment(readings, found.words),
            smallest=smallest_change(score, item, by=far),
            moved=far,
            gradients=_gradients(readings, found.words, steps) if gradients else None,
        )


def _mean_alignment(readings: list[Reading], words: Sequence[Sequence[Word]]) -> Tensor:
    parts = [reading.weight * word_alignment(reading, words) for reading in readings]
    total = sum(reading.weight for reading in readings)
    aligned: Tensor = sum(parts[1:], start=parts[0]) / total
    return aligned


def _gradients(readings: list[Reading], words: Sequence[Sequence[Word]], steps: int) -> Gradients:
    """The weighted mean over readings: integrated gradients are linear in the score."""
    found = [(r.weight, *attribute(r, words, steps=steps)) for r in readings]

    def total(text: int, at: int) -> float:
        return sum(weight * totals[text][at] for weight, totals, _ in found)

    values = tuple(
        tuple(total(text, at) for at in range(len(own))) for text, own in enumerate(words)
    )
    baseline = sum(weight * attributed.baseline for weight, _, attributed in found)
    score = sum(weight * attributed.score for weight, _, attributed in found)
    change = score - baseline
    summed = sum(weight * float(attributed.values.sum()) for weight, _, attributed in found)
    return Gradients(values, baseline, abs(summed - change) / max(abs(change), 1e-6))
