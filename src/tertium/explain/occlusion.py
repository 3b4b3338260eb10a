"""Which words made the score: leave them out, one by one and several together."""

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

# Texts of some items (two sentences each, and a condition if there is one) to scores.
Score = Callable[[list[tuple[str, ...]]], np.ndarray]

Removal = frozenset[Place]

CANDIDATES = 24  # words among which two or more are looked for
_KEPT = 3  # removals that are taken further, of those that raise the score and that lower it


@dataclass(frozen=True)
class Occluded:
    """What each word contributes.

    Attributes:
        score: of the whole texts.
        words: of each text.
        contributions: of each word: how much the score drops without it.
    """

    score: float
    words: tuple[tuple[Word, ...], ...]
    contributions: tuple[tuple[float, ...], ...]

    @property
    def places(self) -> list[Place]:
        """Of all words, text by text."""
        return [(text, at) for text, found in enumerate(self.words) for at in range(len(found))]


def occlude(score: Score, texts: Sequence[str], *, explained: int = 2) -> Occluded:
    """Score the texts without each of their words in turn, all of them in one call.

    Args:
        score: the model.
        texts: two sentences, and a condition if there is one.
        explained: number of texts that lose words, the first ones.
    """
    words = tuple(tuple(split_words(text)) for text in texts[:explained])
    places = [(text, at) for text, found in enumerate(words) for at in range(len(found))]
    scores = score([tuple(texts), *(leave_out(texts, words, {place}) for place in places)])
    falls = iter(float(scores[0]) - scores[1:].astype(float))
    contributions = tuple(tuple(float(next(falls)) for _ in found) for found in words)
    return Occluded(float(scores[0]), words, contributions)


def leave_out(
    texts: Sequence[str], words: Sequence[Sequence[Word]], gone: Collection[Place]
) -> tuple[str, ...]:
    """The texts without the words at some places."""
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
        removed: their places, in order.
        score: without them, within the scale.
        by: how far the score was to move.
        reached: whether it did; if not, these words move it farthest.
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
    """Look for the fewest words whose removal moves the score by ``by``, up or down.

    One word that is enough is always found, and two among those with the largest contributions.
    From three on, only the most promising removals are taken further, so that a smaller one may
    be missed. Each number of words is one call.

    Args:
        score: the model.
        texts: two sentences, and a condition if there is one.
        found: contributions of their words.
        by: how far the score shall move within the scale.
        scale: lowest and highest score.
        most: maximum number of words.
        candidates: number of words, those with the largest contributions, that are combined.
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
    """Every removal that was kept, with one more word."""
    larger = (removal | {place} for removal in kept for place in candidates if place not in removal)
    removals = list(dict.fromkeys(larger))
    if not removals:
        return {}
    values = score([leave_out(texts, found.words, removal) for removal in removals])
    return dict(zip(removals, map(float, values), strict=True))
