"""The same text in slightly different words, by rule."""

import random
import re
from collections.abc import Callable
from functools import cache

from tertium.data.contrasts import collected, read_lists, word_pairs

__all__ = ["heavily_reworded", "replaced", "reworded"]

_OPENINGS = (
    *("In fact, ", "Indeed, ", "It is said that "),
    *("As is known, ", "Moreover, ", "However, "),
)
_CONTRACTED = {
    " is not ": " isn't ",
    " are not ": " aren't ",
    " was not ": " wasn't ",
    " were not ": " weren't ",
    " did not ": " didn't ",
    " does not ": " doesn't ",
    " do not ": " don't ",
    " has not ": " hasn't ",
    " will not ": " won't ",
    " cannot ": " can't ",
}


def _opened(text: str, draw: random.Random) -> str:
    return draw.choice(_OPENINGS) + text


def _synonyms(text: str, draw: random.Random) -> str:
    return replaced(text, _known_synonyms(), draw)


def replaced(text: str, known: dict[str, list[str]], draw: random.Random) -> str:
    """The text with every lower-case word that is known replaced by one of its others."""
    return re.sub(
        r"[a-z]+",
        lambda word: draw.choice(known[word[0]]) if word[0] in known else word[0],
        text,
    )


@cache
def _known_synonyms() -> dict[str, list[str]]:
    return collected(word_pairs(read_lists("antonyms.yaml")["synonyms"]))


_SMALL = {"the", "a", "an", "this", "these", "that", "of", "in", "to", "on", "for", "some", "its"}


def _translated(text: str, draw: random.Random) -> str:
    """Like a translation: small words come and go, and neighbours are swapped."""
    words = [word for word in text.split() if word.lower() not in _SMALL or draw.random() < 0.7]
    for at in range(len(words) - 1, 0, -1):
        chance = draw.random()
        if chance < 0.06:
            words.insert(at, draw.choice(("the", "of", "a", "however", "this")))
        elif chance < 0.1 and not {words[at].lower(), words[at - 1].lower()} & _FIXED:
            words[at - 1], words[at] = words[at], words[at - 1]
    return re.sub(
        r"\b(\w+) and (\w+)\b",
        lambda both: f"{both[2]} and {both[1]}" if draw.random() < 0.5 else both[0],
        " ".join(words),
    )


_FIXED = {"not", "no", "never", "none", "nobody", "nothing", "neither", "nor", "without", "cannot"}


def _contracted(text: str, draw: random.Random) -> str:
    for long, short in _CONTRACTED.items():
        text = text.replace(long, short) if long in text else text.replace(short, long)
    return text


def _tokenised(text: str, draw: random.Random) -> str:
    return re.sub(r"([.,;:!?()\"]|n't\b|'s\b)", r" \1", text).lower().replace("  ", " ")


def _shortened(text: str, draw: random.Random) -> str:
    return re.sub(r" (very|also|however|just|then|really|quite|[a-z]+ly)\b|\([^)]*\) ?", "", text)


def _moved(text: str, draw: random.Random) -> str:
    match = re.match(r"^([A-Z].*\S) ((?:in|on|at|after|during|since) [^,]{3,40})\.$", text)
    return text if match is None else f"{match[2][0].upper()}{match[2][1:]}, {match[1]}."


def _clause_left_out(text: str, draw: random.Random) -> str:
    parts = text.split(", ")
    if len(parts) < 3:
        return text.rstrip(".")
    del parts[draw.randrange(1, len(parts) - 1)]
    return ", ".join(parts)


_WAYS: tuple[Callable[[str, random.Random], str], ...] = (
    _opened,
    _synonyms,
    _contracted,
    _tokenised,
    _shortened,
    _moved,
    _clause_left_out,
    _synonyms,
    _translated,
)


def reworded(text: str, draw: random.Random) -> str:
    """Roughly the same text in slightly different words, with nothing negated or reversed."""
    for way in draw.sample(_WAYS, draw.choice((1, 2, 3, 4))):
        text = way(text, draw).strip() or text
    return text


def heavily_reworded(text: str, draw: random.Random) -> str:
    """The same with most words replaced or moved that may be."""
    return _translated(_synonyms(reworded(text, draw), draw), draw)
