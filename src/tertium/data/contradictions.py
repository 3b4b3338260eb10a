"""Pairs that contradict each other, and pairs that only seem to, for training and selection.

Contradictions are rare among graded pairs, so a model trained only on those treats "not" as just
another small word. These rows are made from sets with labelled contradictions; from sentences
negated by rule; from opposites (``contrasts/antonyms.yaml``): a text, its negated opposite
(which agrees), its negation and its opposite (which contradict); from parties that change places
(:mod:`tertium.data.contrasts.roles`); and from small changes by rule (``contrasts/changes.yaml``).
"""

import random
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeVar

from tertium.data.contrasts import collected, read_lists, word_pairs
from tertium.data.contrasts.opposites import denials, learned_opposites, opposites
from tertium.data.contrasts.rewording import heavily_reworded, replaced, reworded
from tertium.data.contrasts.roles import reordered, role_swaps
from tertium.data.rows import GradedPair

__all__ = ["contradictions"]

# Maximum rows of a source, since opposites are few and must not be outweighed.
_MOST = {
    "nli": 11_000,
    "negated": 3_500,
    "by rule": 2_000,
    "said again": 5_000,
    "unrelated": 500,
    "changed": 4_000,
}
_LONGEST = 20  # maximum words of a sentence that is negated or reworded
Pairs = Iterator[tuple[str, str, float]]
T = TypeVar("T")


def contradictions(
    *,
    nli: Iterable[tuple[str, str, str]],
    negated: Iterable[tuple[str, str]],
    graded: Iterable[tuple[str, str, float]],
    texts: Iterable[str],
    without: Iterable[str] = (),
) -> list[GradedPair]:
    """Pairs that contradict each other (1) or not (0), always the same ones.

    Args:
        nli: premise, hypothesis and label.
        negated: a sentence and its negation.
        graded: pairs and their grades from 0 to 5; with at least 2 they do not contradict.
        texts: sentences of any kind, to negate by rule.
        without: texts to exclude from training.
    """
    draw = random.Random(0)
    kept_out = {_plain(text) for text in without}
    known = [text for text in texts if _is_short(text)]
    rows: list[tuple[str, str, str, float]] = []

    def add(subset: str, pairs: Pairs) -> None:
        rows.extend((subset, a, b, label) for a, b, label in pairs)

    labelled = list(nli)
    sentences = dict.fromkeys(text for *pair, _ in labelled for text in pair)
    short = [pair for pair in negated if len(pair[0].split()) <= _LONGEST]
    add("nli", _labelled(_some(labelled, _MOST["nli"], draw)))
    add("negated", _around_negations(_some(short, _MOST["negated"], draw), draw))
    add("opposites", _around_opposites(draw))
    add("in context", _in_context(known, draw))
    add("by rule", _by_rule(known, draw))
    add("said again", _said_again(known, draw))
    add("graded", _silent(graded))
    add("unrelated", _unrelated(known, draw))
    add("role swaps", _around_role_swaps(draw))
    add("roles in context", _roles_in_context(sentences, draw))
    add("changed", _changed([*known, *(text for text in sentences if _is_short(text))], draw))
    found = []
    for subset, a, b, label in rows:
        if _plain(a) in kept_out or _plain(b) in kept_out:
            continue
        first, second = (a, b) if draw.random() < 0.5 else (b, a)
        found.append(GradedPair(sentence1=first, sentence2=second, score=label, subset=subset))
    return found


def _is_short(text: str) -> bool:
    return 5 <= len(text.split()) <= _LONGEST


def _some(items: Iterable[T], most: int, draw: random.Random) -> list[T]:
    found = list(items)
    return draw.sample(found, min(most, len(found)))


def _labelled(pairs: Iterable[tuple[str, str, str]]) -> Pairs:
    for a, b, label in pairs:
        yield a, b, float(label == "contradiction")


def _around_negations(pairs: list[tuple[str, str]], draw: random.Random) -> Pairs:
    """A sentence contradicts its negation; neither contradicts a rewording of itself."""
    for sentence, negation in pairs:
        yield sentence, negation, 1.0
        if draw.random() < 0.5:
            yield sentence, reworded(negation, draw), 1.0
        kept = draw.choice((sentence, negation))
        yield kept, reworded(kept, draw), 0.0


def _around_opposites(draw: random.Random) -> Pairs:
    learned = [each for each in opposites(seed=1, subjects=3) if each.learned]
    for at, each in enumerate(learned):
        yield each.text, each.same, 0.0
        yield each.text, each.denied, 1.0
        yield each.text, each.opposite, 1.0
        if draw.random() < 0.5:
            yield each.same, each.denied, 1.0
        kind = draw.randrange(4)
        other = learned[(at + draw.randrange(20, 200)) % len(learned)]
        if kind == 0:
            yield each.denied, each.opposite, 0.0
        elif kind == 1:
            yield each.denied, reworded(each.denied, draw), 0.0
        elif kind == 2:
            yield each.text, other.denied, 0.0
        else:
            yield each.text, other.same, 0.0
    yield from denials(draw)


_PREDICATE = re.compile(
    r"\b(is|are|was|were)( (?:very|quite|too|often|usually))? ([a-z]+)"
    r"(?=[,.;]| (?:and|but|in|on|at|to|with|for|when|because|after|until|during|before)\b)"
)


def _in_context(texts: list[str], draw: random.Random) -> Pairs:
    """Opposites in sentences written by people."""
    opposite_of = learned_opposites()
    for text in texts:
        match = _PREDICATE.search(text)
        if match is None or match[3] not in opposite_of:
            continue
        verb, between, word = match[1], match[2] or "", match[3]
        before, after = text[: match.start()], text[match.end() :]
        other = draw.choice(opposite_of[word])
        denied = draw.choice((f"{verb} not", f"{verb}n't"))
        yield text, f"{before}{denied}{between} {other}{after}", 0.0
        yield text, f"{before}{denied}{between} {word}{after}", 1.0
        yield text, f"{before}{verb}{between} {other}{after}", 1.0


_AUXILIARY = re.compile(
    r" (is|are|was|were|had been|has been|can|could|will|would|should|may|must) (?!not\b|no\b|n't)"
)


def _by_rule(texts: list[str], draw: random.Random) -> Pairs:
    """Sentences written by people, negated by rule, and rewordings without negation."""
    for text in _some(texts, _MOST["by rule"], draw):
        match = _AUXILIARY.search(text)
        if match is None:
            continue
        at = match.start() + 1 + len(match[1].split()[0])  # "has not been"
        denied = f"{text[:at]} not{text[at:]}"
        if draw.random() < 0.5:
            yield text, denied, 1.0
        else:
            yield reworded(text, draw), denied, 1.0
        kept = draw.choice((text, denied))
        yield kept, reworded(kept, draw), 0.0


def _said_again(texts: list[str], draw: random.Random) -> Pairs:
    """Sentences written by people, heavily reworded: other words do not contradict."""
    for text in _some(texts, _MOST["said again"], draw):
        yield text, heavily_reworded(text, draw), 0.0


def _silent(graded: Iterable[tuple[str, str, float]]) -> Pairs:
    """Pairs graded as similar, whose differences do not contradict; the most similar twice."""
    for a, b, grade in graded:
        if grade >= 2:
            yield a, b, 0.0
        if grade >= 3.5:
            yield b, a, 0.0


def _unrelated(texts: list[str], draw: random.Random) -> Pairs:
    denied = [text for text in texts if re.search(r"\b(not|never|no|without)\b", text)]
    for text in _some(denied, _MOST["unrelated"], draw):
        yield text, draw.choice(texts), 0.0


def _around_role_swaps(draw: random.Random) -> Pairs:
    """Parties that change places say something else; words that change places need not."""
    for each in role_swaps(seed=1, parties=6):
        if not each.learned:
            continue
        yield each.text, each.same, 0.0
        yield each.text, each.swapped, 1.0
        yield (*draw.choice(((each.text, each.swapped_same), (each.same, each.swapped))), 1.0)
    for text, other in reordered(seed=1):
        yield text, other, 0.0


_LIVING = (
    "man|woman|boy|girl|dog|cat|child|person|player|lady|guy|kid|baby|toddler|horse|monkey|soldier|"
    "officer|teacher|doctor|runner|rider|worker|singer|couple|bird|bull|puppy|kitten|cow|sheep|"
    "goat|men|women|boys|girls|dogs|cats|children|people|players|kids"
)
_MUTUAL = "talking|speaking|chatting|meeting|meets|facing|resembles|has|was"
_ENCOUNTER = re.compile(
    rf"^((?:A|An|The|One|Two|Three|Some)(?: [a-z]+)? (?:{_LIVING})) ((?:is |are )?"
    rf"(?!{_MUTUAL})[a-z]{{2,}}(?:ing|s)(?: (?:at|to|after|on|over|behind|for|past|from))?) "
    rf"((?:a|an|the|one|two|three|some|another|his|her)(?: [a-z]+)? (?:{_LIVING}))\b(.*)$"
)


def _roles_in_context(texts: Iterable[str], draw: random.Random) -> Pairs:
    """Sentences written by people in which two living beings change places."""
    for text in texts:
        match = _ENCOUNTER.search(text)
        if match is None:
            continue
        one, does, other, rest = match.groups()
        swapped = f"{other[0].upper()}{other[1:]} {does} {one[0].lower()}{one[1:]}{rest}"
        yield text, swapped, 1.0
        yield text, reworded(text, draw), 0.0


@cache
def _changes() -> tuple[dict[str, tuple[str, ...]], dict[str, list[str]]]:
    """Of each word or phrase, those that say something else in its place, and those that do not."""
    lists = read_lists("changes.yaml")
    different: dict[str, tuple[str, ...]] = {}
    for line in lists["different"]:
        words = [word.strip() for word in line.split(",")]
        for word in words:
            others = (other for other in words if other != word)
            different[word] = (*different.get(word, ()), *others)
    return different, collected(word_pairs(lists["same"]))


@cache
def _changeable() -> re.Pattern[str]:
    longest_first = sorted(_changes()[0], key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))}|\d+)\b")


def _changed(texts: list[str], draw: random.Random) -> Pairs:
    """Sentences written by people with one number, unit, time or other small word changed."""
    found = [(text, list(_changeable().finditer(text))) for text in texts]
    for text, places in _some((each for each in found if each[1]), _MOST["changed"], draw):
        place = draw.choice(places)
        changed = f"{text[: place.start()]}{_another(place[0], draw)}{text[place.end() :]}"
        kept = reworded(replaced(text, _changes()[1], draw), draw)
        yield draw.choice((text, text, kept)), changed, 1.0
        yield text, kept, 0.0


def _another(word: str, draw: random.Random) -> str:
    if not word.isdigit():
        return draw.choice(_changes()[0][word])
    number = int(word)
    others = {number * 10, number + draw.randint(1, 9), max(number - draw.randint(1, 9), 0)}
    return str(draw.choice(sorted(others - {number})))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
