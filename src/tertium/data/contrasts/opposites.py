"""Opposites, and texts that affirm or deny them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tertium.data.contrasts import (
    Half,
    collected,
    hash_of,
    read_lists,
    read_table,
    word_pairs,
)
from tertium.data.contrasts.verbs import third_person

__all__ = [
    "Opposition",
    "denials",
    "everyday_opposites",
    "learned_opposites",
    "opposite_words",
    "opposites",
]

_KEPT_APART = 5  # one in five groups of opposites is never learned from


@dataclass(frozen=True)
class Opposition:
    """A text with one that means the same and two that mean the opposite.

    Attributes:
        text: an affirmative text.
        same: its negated opposite.
        denied: its negation.
        opposite: its opposite.
        learned: whether training data may use these words.
        half: whether a text written by people is for choosing a model or for reporting.
    """

    text: str
    same: str
    denied: str
    opposite: str
    learned: bool
    half: Half | None = None

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """All four texts."""
        return self.text, self.same, self.denied, self.opposite


@dataclass(frozen=True)
class _Phrase:
    """A statement about a subject: affirmed and negated, each in several ways."""

    affirmed: tuple[str, ...]
    denied: tuple[str, ...]


# Forms of "to be" after a subject: present, past, short form, "seem".
_BE = {
    "I": ("am", "was", "I'm", "seem"),
    **{word: ("are", "were", f"{word}'re", "seem") for word in ("You", "We", "They")},
    **{word: ("is", "was", f"{word}'s", "seems") for word in ("He", "She", "It", "That")},
}
_NAMES = ("I", "Maria", "Tom")
_OTHERS = ("I", "You", "We", "They")  # after which no "is" stands


def _inner(subject: str) -> str:
    """A subject inside a sentence."""
    return subject if subject in _NAMES else subject[0].lower() + subject[1:]


def _state(subject: str, word: str) -> _Phrase:
    be, was, short, seem = _BE.get(subject, ("is", "was", f"{subject} is", "seems"))
    inner, do = _inner(subject), "does" if seem == "seems" else "do"
    denied = f"{short} not" if be == "am" else f"{subject} {be}n't"
    ways = [
        (f"{subject} {be} {word}.", f"{subject} {be} not {word}."),
        (f"{short} {word}.", f"{short} not {word}."),
        (f"{short} {word}.", f"{denied} {word}."),
        (f"{subject} {was} {word}.", f"{subject} {was}n't {word}."),
        (f"{subject} {be} {word} today.", f"{denied} {word} today."),
        (f"{subject} {was} {word} when we came.", f"{subject} {was} not {word} when we came."),
        (f"{subject} {seem} {word}.", f"{subject} {do}n't seem {word}."),
        (f"{subject} will be {word}.", f"{subject} won't be {word}."),
        (f"I think {inner} {be} {word}.", f"I don't think {inner} {be} {word}."),
    ]
    if subject == "You":
        ways.append((f"Be {word}.", f"Don't be {word}."))
    return _Phrase(tuple(yes for yes, _ in ways), tuple(no for _, no in ways))


def _event(frame: str, base: str, past: str) -> _Phrase:
    def said(verb: str) -> str:
        return frame.replace("_", verb) + "."

    subject, _, rest = frame.partition(" _")
    inner = _inner(frame) if frame.split()[0] not in ("I", "Anna") else frame
    ways = [
        (said(past), said(f"did not {base}")),
        (said(past), said(f"didn't {base}")),
        (said(f"will {base}"), said(f"won't {base}")),
        (said(f"always {past}"), said(f"never {past}")),
        (f"They say {inner.replace('_', past)}.", f"They do not say {inner.replace('_', past)}."),
        (said(f"could {base}"), said(f"couldn't {base}")),
    ]
    if subject in ("I", "You", "We", "They"):
        ways.append((said(base), said(f"don't {base}")))
    if subject == "You":
        command = f"{base}{rest}."
        ways.append((command[0].upper() + command[1:], f"Don't {command}"))
    return _Phrase(tuple(yes for yes, _ in ways), tuple(no for _, no in ways))


@cache
def _groups() -> dict[str, str]:
    """Each word's group: words that are connected by opposites."""
    leader: dict[str, str] = {}

    def find(word: str) -> str:
        while leader.setdefault(word, word) != word:
            word = leader[word]
        return word

    lists = read_lists("antonyms.yaml")
    for group in lists["states"]:
        for first, second in word_pairs(group["words"]):
            leader[find(second)] = find(first)
    for group in lists["events"]:
        for first, second in word_pairs(group["words"], ","):
            leader[find(second)] = find(first)
    return {word: min(w for w in leader if find(w) == find(word)) for word in leader}


def _is_learned(word: str) -> bool:
    group = _groups()[word]
    return hash_of(group) % _KEPT_APART != 0


def opposites(*, seed: int = 0, subjects: int | None = None) -> list[Opposition]:
    """Every pair of opposites with some of its subjects, in both directions.

    Args:
        seed: random seed for subjects and wordings.
        subjects: number of subjects for each pair of opposites (default: all).
    """
    draw = random.Random(seed)
    found: list[Opposition] = []
    lists = read_lists("antonyms.yaml")
    for group in lists["states"]:
        known = group["subjects"]
        for words in word_pairs(group["words"]):
            for subject in draw.sample(known, min(subjects or len(known), len(known))):
                phrases = [_state(str(subject), word) for word in words]
                found += _oppositions(phrases, draw, learned=_is_learned(words[0]))
    for group in lists["events"]:
        known = group["frames"]
        for words in word_pairs(group["words"], ","):
            for frame in draw.sample(known, min(subjects or len(known), len(known))):
                phrases = [_event(frame, *_forms(word)) for word in words]
                found += _oppositions(phrases, draw, learned=_is_learned(words[0]))
    return found


def _forms(word: str) -> tuple[str, str]:
    """Base and past form of a verb, from ``go up went up`` or ``keep kept silent``."""
    parts = word.split()
    middle = len(parts) // 2
    if len(parts) % 2 or parts[1:middle] != parts[middle + 1 :]:  # what follows belongs to both
        base, past, *rest = parts
        return " ".join((base, *rest)), " ".join((past, *rest))
    return " ".join(parts[:middle]), " ".join(parts[middle:])


@cache
def everyday_opposites() -> tuple[Opposition, ...]:
    """Everyday sentences with their negated opposites, written by hand and never learned from."""
    return tuple(Opposition(**row, learned=False) for row in read_table("everyday.tsv"))


def _oppositions(
    phrases: Sequence[_Phrase], draw: random.Random, *, learned: bool
) -> Iterator[Opposition]:
    for one, other in (phrases, phrases[::-1]):
        way = draw.randrange(len(one.affirmed))
        yield Opposition(
            one.affirmed[way], other.denied[way], one.denied[way], other.affirmed[way], learned
        )


# Ways of denying that have no affirmed counterpart in the same place.
_DENIALS = (
    "{subject} is anything but {word}.",
    "{subject} is by no means {word}.",
    "{subject} is far from {word}.",
    "It is not true that {inner} is {word}.",
    "{subject} is never {word}.",
    "One cannot call {inner} {word}.",
    "{subject} is no longer {word}.",
    "There is nothing {word} about {inner}.",
)


def denials(draw: random.Random) -> Iterator[tuple[str, str, float]]:
    """Texts, denials that do not mirror them, and whether these contradict (1) or agree (0)."""
    for group in read_lists("antonyms.yaml")["states"]:
        for words in word_pairs(group["words"]):
            if not _is_learned(words[0]):
                continue
            for word, opposite in (words, words[::-1]):
                for pattern in draw.sample(_DENIALS, 3):
                    known = [str(each) for each in group["subjects"]]
                    subject = draw.choice([each for each in known if each not in _OTHERS])
                    inner = {"He": "him", "She": "her", "It": "it"}.get(subject, _inner(subject))
                    if pattern.startswith("It is not true"):
                        inner = _inner(subject)
                    fill = {"subject": subject, "inner": inner}
                    text = f"{subject} is {word}."
                    yield text, pattern.format(**fill, word=opposite), 0.0
                    yield text, pattern.format(**fill, word=word), 1.0


@cache
def learned_opposites() -> dict[str, list[str]]:
    """Opposites of each adjective that training may use."""
    groups = read_lists("antonyms.yaml")["states"]
    pairs = [pair for group in groups for pair in word_pairs(group["words"])]
    return _both_ways(pair for pair in pairs if _is_learned(pair[0]))


@cache
def opposite_words() -> dict[str, list[str]]:
    """Opposites of each word: adjectives, and verbs in all forms."""
    lists = read_lists("antonyms.yaml")
    pairs = [pair for group in lists["states"] for pair in word_pairs(group["words"])]
    for group in lists["events"]:
        for first, second in word_pairs(group["words"], ","):
            forms = [_forms(word) for word in (first, second)]
            pairs += zip(*((base, past, third_person(base)) for base, past in forms), strict=True)
    return _both_ways(pairs)


def _both_ways(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    return collected(way for pair in pairs for way in (pair, pair[::-1]))
