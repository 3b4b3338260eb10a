"""Which words made the score: leave each one out and score again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tertium.encoders.explanation.words import Word, split_words, without

__all__ = ["Occluded", "SmallestChange", "occlude", "smallest_change"]

# Texts of one item (two sentences, and a condition if there is one) to scores.
Score = Callable[[list[tuple[str, ...]]], np.ndarray]
Place = tuple[int, int]  # text, and word in it


@dataclass(frozen=True)
class Occluded:
    """What each word contributes.

    Attributes:
        score: of the whole texts.
        words: of each text.
        contributions: of each word: by how much the score falls without it.
    """

    score: float
    words: tuple[tuple[Word, ...], ...]
    contributions: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SmallestChange:
    """The fewest words found whose removal moves the score far enough.

    Attributes:
        removed: their places, in the order in which they go.
        score: without them.
        reached: whether the score moved as far as was asked.
    """

    removed: tuple[Place, ...]
    score: float
    reached: bool


def occlude(score: Score, texts: Sequence[str], *, explained: int = 2) -> Occluded:
    """Score the texts without each of their words in turn, all of them in one call.

    Args:
        score: the model.
        texts: two sentences, and a condition if there is one.
        explained: so many of the texts lose words, the first ones.
    """
    words = tuple(tuple(split_words(text)) for text in texts[:explained])
    places = [(side, at) for side, found in enumerate(words) for at in range(len(found))]
    items = [tuple(texts), *(_removed(texts, words, {place}) for place in places)]
    scores = score(items)
    falls = iter(float(scores[0]) - scores[1:].astype(float))
    contributions = tuple(tuple(float(next(falls)) for _ in found) for found in words)
    return Occluded(float(scores[0]), words, contributions)


def smallest_change(
    score: Score, texts: Sequence[str], *, by: float, most: int = 8, explained: int = 2
) -> SmallestChange:
    """Remove words one by one, the one that moves the score most each time, until it moved far.

    Every step tries all words that are left in one call, in both directions; the shorter way wins.
    A single word that is enough is always found; with more of them the greedy way may miss a
    shorter one.

    Args:
        score: the model.
        texts: as for :func:`occlude`.
        by: how far the score shall move, up or down.
        most: give up after so many words.
        explained: as for :func:`occlude`.
    """
    words = tuple(tuple(split_words(text)) for text in texts[:explained])
    start = float(score([tuple(texts)])[0])
    ways = [_greedy(score, texts, words, start, sign=sign, by=by, most=most) for sign in (-1, 1)]
    enough = [way for way in ways if way.reached]
    if enough:
        return min(enough, key=lambda way: len(way.removed))
    return max(ways, key=lambda way: abs(way.score - start))


def _greedy(
    score: Score,
    texts: Sequence[str],
    words: tuple[tuple[Word, ...], ...],
    start: float,
    *,
    sign: int,
    by: float,
    most: int,
) -> SmallestChange:
    places = [(side, at) for side, found in enumerate(words) for at in range(len(found))]
    removed: tuple[Place, ...] = ()
    now = start
    while len(removed) < most and sign * (now - start) < by:
        left = [place for place in places if place not in removed]
        if not left:
            break
        scores = score([_removed(texts, words, {*removed, place}) for place in left])
        best = int(np.argmax(sign * scores.astype(float)))
        if sign * float(scores[best]) <= sign * now:
            break
        removed, now = (*removed, left[best]), float(scores[best])
    return SmallestChange(removed, now, sign * (now - start) >= by)


def _removed(
    texts: Sequence[str], words: tuple[tuple[Word, ...], ...], gone: set[Place]
) -> tuple[str, ...]:
    changed = list(texts)
    for side, found in enumerate(words):
        places = {at for text, at in gone if text == side}
        if places:
            changed[side] = without(texts[side], found, places)
    return tuple(changed)
