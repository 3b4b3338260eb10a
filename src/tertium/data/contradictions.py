"""Pairs that contradict each other, and pairs that only seem to, for training and selection.

Contradictions are rare among graded pairs, so a model trained only on those treats "not" as just
another small word. These rows are made from sets with labelled contradictions, from sentences
negated by rule, from opposites (``contrasts/antonyms.yaml``): a text, its negated opposite
(which agrees), its negation and its opposite (which contradict), and from parties that change
places (:mod:`tertium.data.roles`).
"""

from __future__ import annotations

import csv
import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from tertium.data.roles import reordered, role_swaps
from tertium.data.rows import GradedPair
from tertium.data.verbs import third_person

__all__ = [
    "ITEMS",
    "Contrast",
    "Opposition",
    "contradictions",
    "everyday_opposites",
    "half_of",
    "items",
    "opposite_words",
    "opposites",
    "part_of",
    "reworded",
]

_FOLDER = Path(__file__).parent / "contrasts"
ITEMS = _FOLDER / "items.tsv"
_KEPT_APART = 5  # one in five groups of opposites is never learned from
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


Half = Literal["choosing", "reporting"]


def half_of(text: str) -> Half:
    """Which half an item belongs to, by a hash of its text."""
    return "choosing" if _hash(text) % 2 else "reporting"


def part_of(sentence: str) -> Literal["train", "test"]:
    """Whether a negated sentence is for training or testing; a tenth is for testing."""
    return "test" if _hash(sentence) % 10 == 0 else "train"


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")


@dataclass(frozen=True)
class Contrast:
    """A text with a paraphrase, and with a text that barely differs but means something else.

    Attributes:
        kind: the kind of difference.
        text: the text.
        nearer: the paraphrase.
        farther: the text that means something else.
    """

    kind: str
    text: str
    nearer: str
    farther: str

    @property
    def half(self) -> Half:
        """Whether it is for choosing a model or for reporting."""
        return half_of(self.text)


@cache
def items() -> tuple[Contrast, ...]:
    """The contrasts that come with tertium."""
    with ITEMS.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return tuple(Contrast(**row) for row in rows)


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
def _lists() -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # six times as fast, where it is built
    found: dict[str, Any] = yaml.load((_FOLDER / "antonyms.yaml").read_text("utf-8"), loader)
    return found


def _word_pairs(words: str, separator: str | None) -> list[tuple[str, str]]:
    pairs = [each.strip().replace("_", " ").split("/") for each in words.split(separator)]
    return [(first.strip(), second.strip()) for first, second in pairs]


@cache
def _groups() -> dict[str, str]:
    """Each word's group: words that are connected by opposites."""
    leader: dict[str, str] = {}

    def find(word: str) -> str:
        while leader.setdefault(word, word) != word:
            word = leader[word]
        return word

    lists = _lists()
    for group in lists["states"]:
        for first, second in _word_pairs(group["words"], None):
            leader[find(second)] = find(first)
    for group in lists["events"]:
        for first, second in _word_pairs(group["words"], ","):
            leader[find(second)] = find(first)
    return {word: min(w for w in leader if find(w) == find(word)) for word in leader}


def _is_learned(word: str) -> bool:
    group = _groups()[word]
    return _hash(group) % _KEPT_APART != 0


def opposites(*, seed: int = 0, subjects: int | None = None) -> list[Opposition]:
    """Every pair of opposites with some of its subjects, in both directions.

    Args:
        seed: random seed for subjects and wordings.
        subjects: number of subjects for each pair of opposites (default: all).
    """
    draw = random.Random(seed)
    found: list[Opposition] = []
    lists = _lists()
    for group in lists["states"]:
        known = group["subjects"]
        for words in _word_pairs(group["words"], None):
            for subject in draw.sample(known, min(subjects or len(known), len(known))):
                phrases = [_state(str(subject), word) for word in words]
                found += _oppositions(phrases, draw, learned=_is_learned(words[0]))
    for group in lists["events"]:
        known = group["frames"]
        for words in _word_pairs(group["words"], ","):
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
    with (_FOLDER / "everyday.tsv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return tuple(Opposition(**row, learned=False) for row in rows)  # type: ignore[arg-type]


def _oppositions(
    phrases: Sequence[_Phrase], draw: random.Random, *, learned: bool
) -> Iterator[Opposition]:
    for one, other in (phrases, phrases[::-1]):
        way = draw.randrange(len(one.affirmed))
        yield Opposition(
            one.affirmed[way], other.denied[way], one.denied[way], other.affirmed[way], learned
        )


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
    yield from _denials(draw)


def _denials(draw: random.Random) -> Pairs:
    """The same for negations that do not mirror the affirmative sentence."""
    for group in _lists()["states"]:
        for words in _word_pairs(group["words"], None):
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
def _by_word() -> dict[str, list[str]]:
    """Opposites of each adjective that training may use."""
    found: dict[str, list[str]] = {}
    for group in _lists()["states"]:
        for first, second in _word_pairs(group["words"], None):
            if _is_learned(first):
                found.setdefault(first, []).append(second)
                found.setdefault(second, []).append(first)
    return found


@cache
def opposite_words() -> dict[str, list[str]]:
    """Opposites of each word: adjectives, and verbs in all forms."""
    found: dict[str, list[str]] = {}
    lists = _lists()
    pairs = [pair for group in lists["states"] for pair in _word_pairs(group["words"], None)]
    for group in lists["events"]:
        for first, second in _word_pairs(group["words"], ","):
            forms = [_forms(word) for word in (first, second)]
            pairs += zip(*((base, past, third_person(base)) for base, past in forms), strict=True)
    for first, second in pairs:
        found.setdefault(first, []).append(second)
        found.setdefault(second, []).append(first)
    return found


_PREDICATE = re.compile(
    r"\b(is|are|was|were)( (?:very|quite|too|often|usually))? ([a-z]+)"
    r"(?=[,.;]| (?:and|but|in|on|at|to|with|for|when|because|after|until|during|before)\b)"
)


def _in_context(texts: list[str], draw: random.Random) -> Pairs:
    """Opposites in sentences written by people."""
    opposite_of = _by_word()
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
        yield text, _translated(_synonyms(reworded(text, draw), draw), draw), 0.0


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
    lists = yaml.safe_load((_FOLDER / "changes.yaml").read_text("utf-8"))
    different: dict[str, tuple[str, ...]] = {}
    for line in lists["different"]:
        words = [word.strip() for word in line.split(",")]
        for word in words:
            others = (other for other in words if other != word)
            different[word] = (*different.get(word, ()), *others)
    return different, _collected(_word_pairs(lists["same"], None))


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
        kept = reworded(_replaced(text, _changes()[1], draw), draw)
        yield draw.choice((text, text, kept)), changed, 1.0
        yield text, kept, 0.0


def _another(word: str, draw: random.Random) -> str:
    if not word.isdigit():
        return draw.choice(_changes()[0][word])
    number = int(word)
    others = {number * 10, number + draw.randint(1, 9), max(number - draw.randint(1, 9), 0)}
    return str(draw.choice(sorted(others - {number})))


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
    return _replaced(text, _known_synonyms(), draw)


def _replaced(text: str, known: dict[str, list[str]], draw: random.Random) -> str:
    return re.sub(
        r"[a-z]+",
        lambda word: draw.choice(known[word[0]]) if word[0] in known else word[0],
        text,
    )


@cache
def _known_synonyms() -> dict[str, list[str]]:
    return _collected(_word_pairs(_lists()["synonyms"], None))


def _collected(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word, other in pairs:
        found.setdefault(word, []).append(other)
    return found


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


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
