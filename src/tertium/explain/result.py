"""An explanation: one score, word by word."""

from dataclasses import dataclass
from typing import Any

from tertium.explain.focus import Focus
from tertium.explain.occlusion import Place, SmallestChange
from tertium.explain.words import Word
from tertium.types import ExplanationMethod as Method

__all__ = ["Explanation", "Gradients", "Method"]

Values = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Gradients:
    """Contributions of words by integrated gradients.

    Attributes:
        contributions: of each word of both texts; those of a text and its baseline add up to the
            score.
        baselines: the score where the first text says nothing, and where the second does.
        error: by how much a sum misses the difference of score and baseline, relative to it; the
            larger of both texts'.
        steps: points of the integral.
    """

    contributions: Values
    baselines: tuple[float, ...]
    error: float
    steps: int


@dataclass(frozen=True)
class Explanation:
    """One score, word by word.

    Attributes:
        model: what results call it.
        texts: both of them.
        condition: the respect in which they were compared, or None.
        score: as the model gives it, within the scale.
        unclipped: the same where a model goes beyond its scale; contributions refer to it.
        scale: lowest and highest score.
        words: of each text.
        occlusion: of each word: by how much the score falls without it.
        smallest: the fewest words without which the score is another one.
        gradients: contributions by integrated gradients, if they were asked for.
        alignment: cosine of each word of the first text with each of the second, in the last
            layer; None where torch does not run the model.
        focus: where attention goes with the condition and without it, for a model that shows that.
        notes: why something is missing.
    """

    model: str
    texts: tuple[str, str]
    condition: str | None
    score: float
    unclipped: float
    scale: tuple[float, float]
    words: tuple[tuple[Word, ...], ...]
    occlusion: Values
    smallest: SmallestChange
    gradients: Gradients | None = None
    alignment: Values | None = None
    focus: Focus | None = None
    notes: tuple[str, ...] = ()

    @property
    def contributions(self) -> Values:
        """By integrated gradients if they were asked for, else by occlusion."""
        return self.occlusion if self.gradients is None else self.gradients.contributions

    @property
    def method(self) -> Method:
        """How :attr:`contributions` were found."""
        return Method.OCCLUSION if self.gradients is None else Method.GRADIENTS

    def word(self, place: Place) -> str:
        """The word at a place."""
        text, at = place
        return self.words[text][at].text

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``tertium explain --json`` prints them."""
        change, integral = self.smallest, self.gradients
        return {
            "model": self.model,
            "condition": self.condition,
            "score": self.score,
            "unclipped": self.unclipped,
            "scale": list(self.scale),
            "method": str(self.method),
            "texts": [self._text(text) for text in (0, 1)],
            "smallest_change": {
                "by": change.by,
                "reached": change.reached,
                "score": change.score,
                "removed": [
                    {"text": text, "place": at, "word": self.word((text, at))}
                    for text, at in change.removed
                ],
            },
            "gradients": integral
            and {
                "baselines": list(integral.baselines),
                "completeness_error": integral.error,
                "steps": integral.steps,
            },
            "alignment": self.alignment and [list(row) for row in self.alignment],
            "attention": self.focus and _attention(self.focus),
            "notes": list(self.notes),
        }

    def _text(self, text: int) -> dict[str, Any]:
        """One text with its words."""
        slopes = None if self.gradients is None else self.gradients.contributions[text]
        return {
            "text": self.texts[text],
            "words": [
                {
                    "word": word.text,
                    "start": word.start,
                    "end": word.end,
                    "occlusion": self.occlusion[text][at],
                    "gradients": slopes and slopes[at],
                }
                for at, word in enumerate(self.words[text])
            ],
        }


def _attention(focus: Focus) -> dict[str, Any]:
    """Without weights that do not enter the score."""
    found = focus.to_json()
    return found if focus.reallocates else {**found, "reallocated": None}
