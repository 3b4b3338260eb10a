"""Why does a model give this score? One answer for every kind of model."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tertium.errors import TertiumError, unknown_name
from tertium.explain.focus import focus_of
from tertium.explain.occlusion import CANDIDATES, occlude, smallest_change
from tertium.explain.pairs import pair_reading
from tertium.explain.readings import Reading, attribute, word_alignment
from tertium.explain.result import Explanation, Gradients, Method, Values
from tertium.explain.triples import triple_reading
from tertium.explain.words import Word
from tertium.models.base import Embedder, Model
from tertium.models.tokens import TokenizationStats, valid_text

__all__ = ["explain_score", "readings_of"]

_COSINE = (-1.0, 1.0)
_STEPS = (32, 64, 128, 256, 512)
_ENOUGH = 0.01  # relative error of the integral
_TOLERABLE = 0.02
_LEAST = 0.01  # of the scale: no error is measured against a smaller change than this


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
    """What :meth:`tertium.Model.explain` answers; the arguments up to ``most`` are explained there.

    Args:
        model: any.
        a: the first text.
        b: the second text.
        condition: the respect in which they are compared.
        method: how contributions are found.
        steps: points of an integral.
        by: how far the smallest change shall move the score.
        most: words that the smallest change may take.
        candidates: with fewer of them the smallest change is looked for among fewer words, and
            sooner found.
        score: scores items instead of the model's ``score_items``.
        pause: called before each step that is not scoring.
    """
    by = (0.2 if model.scale == _COSINE else 1.0) if by is None else by
    chosen = _checked(method, steps, by, most)
    item = _item(model, a, b, condition)
    if score is None:
        model.score_items([item])  # says what it has to say about these texts, once
        score = partial(model.score_items, truncation=TokenizationStats())
    found = occlude(score, item)
    if not any(found.words):
        raise TertiumError("Neither text has a word: there is nothing to explain.")
    pause()
    readings, why = _readings(model, item)
    if chosen is Method.GRADIENTS and why is not None:
        raise TertiumError(why)
    smallest = smallest_change(
        score, item, found, by=by, scale=model.scale, most=most, candidates=candidates
    )
    pause()
    low, high = model.scale
    gradients, notes = None, [] if why is None else [why]
    if chosen is Method.GRADIENTS:
        gradients = _gradients(readings, found.words, steps, high - low)
        if gradients.error > _TOLERABLE:
            notes.append(
                f"With {gradients.steps} steps the integral misses the score by "
                f"{100 * gradients.error:.1f} %: take more of them."
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
        alignment=_mean_alignment(readings, found.words) if readings else None,
        focus=focus_of(model, item) if readings else None,
        notes=tuple(notes),
    )


def _checked(method: str, steps: int | None, by: float, most: int) -> Method:
    try:
        chosen = Method(method)
    except ValueError:
        raise unknown_name("method", method, list(Method)) from None
    if steps is not None and steps < 2:
        raise TertiumError(f"An integral takes at least 2 steps, not {steps}.")
    if not by > 0:
        raise TertiumError(f"The smallest change moves the score by more than 0, not by {by:g}.")
    if most < 0:
        raise TertiumError(f"The smallest change takes 0 words or more, not {most}.")
    return chosen


def _item(model: Model, a: str, b: str, condition: str | None) -> tuple[str, ...]:
    for text in (a, b, condition or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is {type(text).__name__}, not a string.")
    if model.takes_conditions:
        return valid_text(a), valid_text(b), valid_text(condition or "")
    model.check_condition(condition)
    return valid_text(a), valid_text(b)


def readings_of(model: Model, item: tuple[str, ...]) -> list[Reading]:
    """The item as torch reads it; several where the score is the weighted mean of theirs.

    Raises ``TertiumError`` where torch does not run the model.
    """
    if not model.members:
        raise TertiumError(f"{model.name} shows nothing but scores.")
    if isinstance(model, Embedder):
        return [pair_reading(model, item)]
    return [triple_reading(each.model, item, weight=each.weight) for each in model.members]


def _readings(model: Model, item: tuple[str, ...]) -> tuple[list[Reading], str | None]:
    """The item as torch reads it, or why torch does not."""
    try:
        return readings_of(model, item), None
    except TertiumError as error:
        return [], str(error)


def _mean_alignment(readings: list[Reading], words: Sequence[Sequence[Word]]) -> Values:
    total = sum(reading.weight for reading in readings)
    parts = [reading.weight / total * word_alignment(reading, words) for reading in readings]
    return tuple(map(tuple, sum(parts[1:], start=parts[0]).tolist()))


def _gradients(
    readings: list[Reading], words: Sequence[Sequence[Word]], steps: int | None, reach: float
) -> Gradients:
    """As exact as was asked, or with ever more steps until they are exact enough."""
    for count in _STEPS if steps is None else (steps,):
        found = _integrated(readings, words, count, reach)
        if found.error < _ENOUGH:
            break
    return found


def _integrated(
    readings: list[Reading], words: Sequence[Sequence[Word]], steps: int, reach: float
) -> Gradients:
    """The weighted mean over readings: integrated gradients are linear in the score."""
    values, baselines, errors = [], [], []
    for text, own in enumerate(words):
        found = [(r.weight, attribute(r, text, own, steps=steps)) for r in readings]
        values.append(
            tuple(sum(weight * part.values[at] for weight, part in found) for at in range(len(own)))
        )
        baselines.append(sum(weight * part.baseline for weight, part in found))
        change = sum(weight * part.score for weight, part in found) - baselines[-1]
        errors.append(abs(sum(values[-1]) - change) / max(abs(change), _LEAST * reach))
    return Gradients(tuple(values), tuple(baselines), max(errors), steps)
