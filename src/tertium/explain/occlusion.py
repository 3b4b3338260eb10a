"""Which words made the score: leave each one out and score again."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tertium.explain.words import Word, split_words, without

__all__ = ["Occluded", "Place", "Score", "leave_out", "occlude"]

# Texts of some items (two sentences each, and a condition if there is one) to scores.
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

    @property
    def places(self) -> list[Place]:
        """Of all words, text by text."""
        return [(text, at) for text, found in enumerate(self.words) for at in range(len(found))]


def occlude(score: Score, texts: Sequence[str], *, explained: int = 2) -> Occluded:
    """Score the texts without each of their words in turn, all of them in one call.

    Args:
        score: the model.
        texts: two sentences, and a condition if there is one.
        explained: so many of the texts lose words, the first ones.
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
