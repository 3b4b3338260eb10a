"""Why does a model give this score? One answer for every kind of model."""

from collections.abc import Sequence

import numpy as np

from tertium.errors import TertiumError, unknown_name
from tertium.explain.occlusion import CANDIDATES, occlude, smallest_change
from tertium.explain.readings import Reading, attribute, word_alignment
from tertium.explain.result import Explanation, Gradients, Method, Values
from tertium.explain.words import Word
from tertium.models.encoder import Truncation, valid_text
from tertium.models.explains import Explainable

__all__ = ["explained"]
_COSINE = (-1.0, 1.0)
_STEPS = (32, 64, 128, 256, 512)
_ENOUGH = 0.01  # relative error of the integral
_TOLERABLE = 0.02
_LEAST = 0.01  # of the scale: no error is measured against a smaller change than this


def explained(
    model: Explainable,
    a: str,
    b: str,
    *,
    condition: str | None,
    method: str,
    steps: int | None,
    by: float | None,
    most: int,
    candidates: int = CANDIDATES,
) -> Explanation:
    """What :meth:`tertium.models.explains.Explains.explain` answers; its arguments are there.

    With fewer ``candidates`` the smallest change is looked for among fewer words, and sooner found.
    """
    by = (0.2 if model.scale == _COSINE else 1.0) if by is None else by
    chosen = _checked(method, steps, by, most)
    item = _item(model, a, b, condition)
    model.score_items([item])  # says what it has to say about these texts, once

    def score(items: list[tuple[str, ...]]) -> np.ndarray:
        return model.score_items(items, truncation=Truncation())

    found = occlude(score, item)
    if not any(found.words):
        raise TertiumError("Neither text has a word: there is nothing to explain.")
    readings, why = _readings(model, item)
    if chosen is Method.GRADIENTS and why is not None:
        raise TertiumError(why)
    smallest = smallest_change(
        score, item, found, by=by, scale=model.scale, most=most, candidates=candidates
    )
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
        focus=model.focused(item) if readings else None,
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


def _item(model: Explainable, a: str, b: str, condition: str | None) -> tuple[str, ...]:
    for text in (a, b, condition or ""):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is {type(text).__name__}, not a string.")
    if model.takes_conditions:
        return valid_text(a), valid_text(b), valid_text(condition or "")
    if condition is not None:
        raise TertiumError(
            f"{model.name} does not take conditions: leave the condition out, or take "
            "conditional or another model that does."
        )
    return valid_text(a), valid_text(b)


def _readings(model: Explainable, item: tuple[str, ...]) -> tuple[list[Reading], str | None]:
    """The item as torch reads it, or why torch does not."""
    try:
        return model.readings(item), None
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
