"""Contributions of words by occlusion, and the smallest set of words that changes a score."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tertium.explain.words import Place, Word, split_words, without

__all__ = [
    "CANDIDATES",
    "Occluded",
    "Score",
    "SmallestChange",
    "leave_out",
    "occlude",
    "smallest_change",
]

# From items (two sentences each, and perhaps a condition) to scores.
Score = Callable[[list[tuple[str, ...]]], np.ndarray]

Removal = frozenset[Place]

CANDIDATES = 24  # words that sets of two or more are chosen from
_KEPT = 3  # removals to extend, of those that raise the score most and those that lower it most


@dataclass(frozen=True)
class Occluded:
    """Contributions of words by occlusion.

    Attributes:
        score: score of the complete texts.
        words: words of each text.
        contributions: for each word, how much the score drops without it.
    """

    score: float
    words: tuple[tuple[Word, ...], ...]
    contributions: tuple[tuple[float, ...], ...]

    @property
    def places(self) -> list[Place]:
        """Positions of all words, text by text."""
        return [(text, at) for text, found in enumerate(self.words) for at in range(len(found))]


def occlude(score: Score, texts: Sequence[str]) -> Occluded:
    """Score the texts without each word of the first two, all in one call.

    Args:
        score: the model.
        texts: two sentences, and perhaps a condition.
    """
    words = tuple(tuple(split_words(text)) for text in texts[:2])
    places = [(text, at) for text, found in enumerate(words) for at in range(len(found))]
    scores = score([tuple(texts), *(leave_out(texts, words, {place}) for place in places)])
    falls = iter(float(scores[0]) - scores[1:].astype(float))
    contributions = tuple(tuple(float(next(falls)) for _ in found) for found in words)
    return Occluded(float(scores[0]), words, contributions)


def leave_out(
    texts: Sequence[str], words: Sequence[Sequence[Word]], gone: Collection[Place]
) -> tuple[str, ...]:
    """The texts without the words at some positions."""
    changed = list(texts)
    for text, found in enumerate(words):
        places = {at for other, at in gone if other == text}
        if places:
            changed[text] = without(texts[text], found, places)
    return tuple(changed)


@dataclass(frozen=True)
class SmallestChange:
    """The fewest words found whose removal moves the score far enough.

    Attributes:
        removed: their positions, in order.
        score: the score without them, clipped to the scale.
        by: the required change.
        reached: whether it was reached; if not, these words change the score most.
    """

    removed: tuple[Place, ...]
    score: float
    by: float
    reached: bool


def smallest_change(
    score: Score,
    texts: Sequence[str],
    found: Occluded,
    *,
    by: float,
    scale: tuple[float, float] = (-np.inf, np.inf),
    most: int = 6,
    candidates: int = CANDIDATES,
) -> SmallestChange:
    """Search for the fewest words whose removal moves the score by ``by``, up or down.

    A single word that suffices is always found, and so are two among the candidates. From three on
    it is a beam search, which may miss a smaller set. Each number of words is one call.

    Args:
        score: the model.
        texts: two sentences, and perhaps a condition.
        found: contributions of their words.
        by: how much the score must move within the scale.
        scale: lowest and highest score.
        most: maximum number of words.
        candidates: how many words, those with the largest contributions, are combined.
    """

    def within(value: float) -> float:
        return float(np.clip(value, *scale))

    def moved(value: float) -> float:
        return abs(within(value) - within(found.score))

    fall = {place: found.contributions[place[0]][place[1]] for place in found.places}
    strongest = sorted(fall, key=lambda place: -abs(fall[place]))[:candidates]
    level = {frozenset({place}): found.score - value for place, value in fall.items()}
    best: tuple[Removal, float] = (frozenset(), found.score)
    for count in range(1, most + 1):
        if not level:
            break
        farthest = max(level, key=lambda removal: moved(level[removal]))
        if moved(level[farthest]) > moved(best[1]):
            best = (farthest, level[farthest])
        if moved(best[1]) >= by:
            break
        if count < most:
            kept = [frozenset({place}) for place in strongest] if count == 1 else _ends(level)
            level = _scored(score, texts, found, kept, strongest)
    removal, value = best
    return SmallestChange(tuple(sorted(removal)), within(value), by, moved(value) >= by)


def _ends(level: dict[Removal, float]) -> list[Removal]:
    """The removals that lower the score most, and those that raise it most."""
    order = sorted(level, key=level.__getitem__)
    return order if len(order) <= 2 * _KEPT else [*order[:_KEPT], *order[-_KEPT:]]


def _scored(
    score: Score,
    texts: Sequence[str],
    found: Occluded,
    kept: Sequence[Removal],
    candidates: Sequence[Place],
) -> dict[Removal, float]:
    """Every kept removal extended by one word, with its score."""
    larger = (removal | {place} for removal in kept for place in candidates if place not in removal)
    removals = list(dict.fromkeys(larger))
    if not removals:
        return {}
    values = score([leave_out(texts, found.words, removal) for removal in removals])
    return dict(zip(removals, map(float, values), strict=True))
