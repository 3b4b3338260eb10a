"""Explain a score word by word, for every kind of model."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tertium.errors import TertiumError, require, unknown_name
from tertium.explain.occlusion import CANDIDATES, SmallestChange, occlude, smallest_change
from tertium.explain.words import Place, Word
from tertium.models.base import Model
from tertium.models.tokens import TokenizationStats, valid_text
from tertium.types import ExplanationMethod as Method

if TYPE_CHECKING:
    from tertium.explain.attention import Focus
    from tertium.explain.gradients import Gradients
    from tertium.explain.tokens import TokenizedItem

__all__ = ["Explanation", "Method", "explain_score"]

Values = tuple[tuple[float, ...], ...]

_COSINE = (-1.0, 1.0)
_TOLERABLE = 0.02  # relative error of an integral


@dataclass(frozen=True)
class Explanation:
    """One score, word by word.

    Attributes:
        model: name of the model.
        texts: both texts.
        condition: the condition they were compared under, or None.
        score: the model's score, clipped to the scale.
        unclipped: the score before clipping, which contributions refer to.
        scale: lowest and highest score.
        words: words of each text.
        occlusion: for each word, how much the score drops without it.
        smallest: the fewest words whose removal changes the score by a given amount.
        gradients: contributions by integrated gradients, if requested.
        alignment: cosine of each word of the first text with each of the second, in the last
            layer; None if the engine only computes scores.
        focus: attention with and without the condition, if available.
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
    gradients: "Gradients | None" = None
    alignment: Values | None = None
    focus: "Focus | None" = None
    notes: tuple[str, ...] = ()

    @property
    def contributions(self) -> Values:
        """Contributions by integrated gradients if requested, else by occlusion."""
        return self.occlusion if self.gradients is None else self.gradients.contributions

    @property
    def method(self) -> Method:
        """The method behind :attr:`contributions`."""
        return Method.OCCLUSION if self.gradients is None else Method.GRADIENTS

    def word(self, place: Place) -> str:
        """The word at a position."""
        text, at = place
        return self.words[text][at].text

    def _repr_html_(self) -> str:
        """The display in a notebook: coloured words and the smallest change."""
        from tertium.explain.pictures import explanation_body, explanation_title

        title = escape(explanation_title(self))
        return f"<h4>{title}</h4>\n{explanation_body(self)}"

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


def _attention(focus: "Focus") -> dict[str, Any]:
    """The attention, without weights that the model does not use."""
    found = focus.to_json()
    return found if focus.reallocates else {**found, "reallocated": None}


def explain_score(
    model: Model,
    a: str,
    b: str,
    *,
    condition: str | None = None,
    method: str = "occlusion",
    steps: int | None = None,
    by: float | None = None,
    most: int = 6,
    candidates: int = CANDIDATES,
    score: Callable[[list[tuple[str, ...]]], np.ndarray] | None = None,
    pause: Callable[[], None] = lambda: None,
) -> Explanation:
    """Explain a score; the implementation of :meth:`tertium.Model.explain`.

    Args:
        model: any model.
        a: the first text.
        b: the second text.
        condition: the condition they are compared under.
        method: ``occlusion`` or ``gradients``.
        steps: points of the integral.
        by: how much the smallest change must move the score.
        most: maximum words of the smallest change.
        candidates: number of words that the smallest change is chosen from; fewer are faster.
        score: scores items instead of the model's ``score_items``.
        pause: called before each step that is not scoring.
    """
    by = (0.2 if model.scale == _COSINE else 1.0) if by is None else by
    chosen = _checked(method, steps, by, most)
    item = _item(model, a, b, condition)
    if score is None:
        model.score_items([item])  # warns about these texts once
        score = partial(model.score_items, truncation=TokenizationStats())
    found = occlude(score, item)
    if not any(found.words):
        raise TertiumError("Neither text contains a word: there is nothing to explain.")
    pause()
    if chosen is Method.GRADIENTS and model.reads_together:
        inside = model.vector_model
        other = f"; {inside.name} has gradients" if inside is not model else ""
        raise TertiumError(f"{model.name} reads both texts together: use occlusion{other}.")
    items = _tokenized(model, item) if chosen is Method.GRADIENTS else []
    smallest = smallest_change(
        score, item, found, by=by, scale=model.scale, most=most, candidates=candidates
    )
    pause()
    low, high = model.scale
    alignment, focus, notes = _looked(model, item, found.words)
    if model.align([item]) is not None:
        notes.append(
            "A text is longer than the model reads and was scored by its passages: alignment, "
            "attention and gradients show only its beginning."
        )
    gradients = None
    if chosen is Method.GRADIENTS:
        from tertium.explain.gradients import word_gradients

        gradients = word_gradients(items, found.words, steps=steps, scale=model.scale)
        if gradients.error > _TOLERABLE:
            notes.append(
                f"With {gradients.steps} steps the integral misses the score by "
                f"{100 * gradients.error:.1f} %: use more steps."
            )
    return Explanation(
        model=model.name,
        texts=(item[0], item[1]),
        condition=item[2] if condition is not None else None,
        score=min(max(found.score, low), high),
        unclipped=found.score,
        scale=(low, high),
        words=found.words,
        occlusion=found.contributions,
        smallest=smallest,
        gradients=gradients,
        alignment=alignment,
        focus=focus,
        notes=tuple(notes),
    )


def _checked(method: str, steps: int | None, by: float, most: int) -> Method:
    try:
        chosen = Method(method)
    except ValueError:
        raise unknown_name("method", method, list(Method)) from None
    if steps is not None and steps < 2:
        raise TertiumError(f"steps must be at least 2, got {steps}.")
    if not by > 0:
        raise TertiumError(f"The smallest change must move the score by more than 0, got {by:g}.")
    if most < 0:
        raise TertiumError(f"The smallest change must allow 0 or more words, got {most}.")
    return chosen


def _item(model: Model, a: str, b: str, condition: str | None) -> tuple[str, ...]:
    for text in (a, b, condition or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is {type(text).__name__}, not a string.")
    if model.takes_conditions:
        return valid_text(a), valid_text(b), valid_text(condition or "")
    model.check_condition(condition)
    return valid_text(a), valid_text(b)


def _tokenized(model: Model, item: tuple[str, ...]) -> "list[TokenizedItem]":
    """The item as torch inputs."""
    require("explain", purpose="Explaining by integrated gradients", packages=("captum", "torch"))
    from tertium.explain.tokens import tokenize_item

    return tokenize_item(model, item)


def _looked(
    model: Model, item: tuple[str, ...], words: tuple[tuple[Word, ...], ...]
) -> "tuple[Values | None, Focus | None, list[str]]":
    """Alignment and attention, or a note on why there are none."""
    from tertium.explain.attention import focus_of
    from tertium.explain.reading import read_item, word_alignment

    try:
        alignment = word_alignment(read_item(model, item), words)
        return tuple(map(tuple, alignment.tolist())), focus_of(model, item), []
    except TertiumError as error:
        return None, None, [str(error)]
