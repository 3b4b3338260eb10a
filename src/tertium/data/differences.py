"""Which kinds of contrast two texts show, judged by their words."""

import re
from collections import Counter
from functools import cache

from tertium.data.contrasts import items
from tertium.data.contrasts.opposites import opposite_words

__all__ = ["another_value", "denies_opposite", "differences", "may_contradict"]

_DENIED = re.compile(
    r"^(not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|hardly)$|n['\u2019]t$"
)
_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "mis")
_LONGEST = 60  # maximum words of a text that a judge is asked about
_SHORT = 11  # maximum words of a text in which any word counts
_FEW = 3  # maximum different words of two texts that are otherwise alike
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\d+(?:[.,:]\d+)*")
_WORDS = {
    "quantity": "all every each most many much some several few fewer more less half both any "
    "only once twice always often sometimes rarely seldom usually least almost everyone everybody "
    "somebody someone nearly exactly",
    "unit": "second seconds degree degrees per",  # and those of _UNITS
    "time": "monday tuesday wednesday thursday friday saturday sunday january february march april "
    "may june july august september october november december morning noon afternoon evening night "
    "midnight today yesterday tomorrow before after during until since spring summer autumn winter "
    "early late earlier later next last ago soon already still yet while was were will",
    "modality": "must may might can could should would will shall need needs ought allowed able "
    "possible probably perhaps certainly surely definitely possibly likely unlikely have has had",
    "cause": "because since so therefore although though despite if unless thus hence due to "
    "causes caused leads led results",
}
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand million billion first second third fourth fifth sixth seventh eighth ninth "
    "tenth dozen"
)
_SCALES = {  # words of which one excludes the others, and that have few synonyms
    "weekday": "monday tuesday wednesday thursday friday saturday sunday",
    "month": "january february march april june july august september october november december",
    "season": "spring summer autumn winter",
    "part of the day": "morning noon afternoon evening midnight",
    "direction": "north south east west northern southern eastern western",
}
_UNITS = (  # each with its spellings
    "millimetre millimeter mm, centimetre centimeter cm, metre meter, kilometre kilometer km, "
    "mile, inch inche, foot feet, yard, milligram mg, gram, kilogram kilo kg, ton tonne, pound, "
    "ounce, millilitre milliliter ml, litre liter, gallon, pint, minute, hour, day, week, month, "
    "year, decade, century centurie, celsius, fahrenheit, dollar, euro, cent, watt, kilowatt, "
    "megawatt, volt, byte, kilobyte, megabyte, gigabyte, terabyte, hectare, acre, percent"
)


def differences(a: str, b: str) -> list[str]:
    """Kinds of contrast that two texts may show, in the order of the contrasts.

    Only words are compared, so the meaning need not differ.

    >>> differences("He is asleep.", "He is not asleep.")
    ['negation']
    >>> differences("Ann saw Bob.", "Bob saw Ann."), differences("3 euros.", "5 euros.")
    (['role swap'], ['number'])
    """
    one, two = (_WORD.findall(text) for text in (a, b))
    words = [[word.lower() for word in each] for each in (one, two)]
    counts = [Counter(each) for each in words]
    only = [set(counts[side] - counts[1 - side]) for side in (0, 1)]
    found = {kind for kind, known in _sets().items() if any(side & known for side in only)}
    denied, opposed = _denied(counts), _opposed(only)
    if denied and opposed:
        found.add("double negation")
    elif denied:
        found.add("negation")
    elif opposed:
        found.add("antonym")
    if any(word[0].isdigit() for side in only for word in side):
        found.add("number")
    starts = [each[0] if each else "" for each in (one, two)]
    named = [
        {w for w in each if w[0].isupper() and w.lower() in side and w != start}
        for each, side, start in zip((one, two), only, starts, strict=True)
    ]
    if any(side - {word.title() for word in _sets()["time"]} for side in named):
        found.add("name")
    if counts[0] == counts[1] and words[0] != words[1]:
        found.add("role swap")
    return [kind for kind in dict.fromkeys(item.kind for item in items()) if kind in found]


def may_contradict(a: str, b: str, *, words: int) -> bool:
    """Whether two texts may contradict each other, judged by their words.

    They may if one has more negations than the other, if a word of one is the opposite of a word of
    the other, if so few words differ that any of them could change the meaning, or if the same
    words stand in another order. Texts of more than 11 words nearly always contain negations or
    opposites, so these count only if at most 3 words differ; texts of more than 60 words never may.

    Args:
        a: the first text.
        b: the second text.
        words: the number of different words that counts as few.

    >>> may_contradict("It is hot.", "It isn't hot.", words=0)
    True
    >>> may_contradict("A red car.", "A blue car.", words=1)
    True
    >>> may_contradict("A red car.", "Two blue cars stop.", words=1)
    False
    >>> may_contradict("Ann saw Bob.", "Bob saw Ann.", words=0)
    True
    """
    counts, only = _compared(a, b)
    differ, length = (max(side.total() for side in each) for each in (only, counts))
    if length > _LONGEST:
        return False
    if differ <= words:
        return differ > 0 or _order(a) != _order(b)
    if length > _SHORT and differ > _FEW:
        return False
    return _denied(counts) or _opposed([set(side) for side in only])


def another_value(a: str, b: str) -> bool:
    """Whether two texts differ only in numbers, units, days, months or directions.

    A number together with its unit may be the same in another unit, so it does not count.

    >>> another_value("It takes 3 hours.", "It takes 3 days.")
    True
    >>> another_value("We met on Monday.", "We met on Sunday."), another_value("5 km", "five km")
    (True, False)
    >>> another_value("It takes 60 minutes.", "It takes 1 hour.")
    False
    """
    one, two = _order(a), _order(b)
    if len(one) != len(two):
        return False
    changed = [(_value(x), _value(y)) for x, y in zip(one, two, strict=True) if x != y]
    if any(x is None or y is None or x[0] != y[0] for x, y in changed):
        return False
    scales = {x[0] for x, y in changed if x and x != y}
    return bool(scales) and not {"number", "unit"} <= scales


def denies_opposite(a: str, b: str) -> bool:
    """Whether one of two otherwise similar texts denies the opposite of what the other says.

    >>> denies_opposite("He is asleep.", "He isn't awake.")
    True
    >>> denies_opposite("He is asleep.", "He isn't asleep.")
    False
    """
    counts, only = _compared(a, b)
    differ, length = (max(side.total() for side in each) for each in (only, counts))
    alike = differ <= _FEW and length <= _LONGEST
    return alike and _denied(counts) and _opposed([set(side) for side in only])


def _compared(a: str, b: str) -> tuple[list[Counter[str]], list[Counter[str]]]:
    """Words of both texts, and the words that only one has."""
    counts = [Counter(_order(text)) for text in (a, b)]
    return counts, [counts[side] - counts[1 - side] for side in (0, 1)]


def _order(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _value(word: str) -> tuple[str, str | float] | None:
    """What a word of a scale stands for, such as a number or a weekday."""
    if word[0].isdigit():
        plain = re.sub(r"[.,:](?=\d{3}\b)", "", word)
        try:
            return "number", float(re.sub("[,:]", ".", plain))
        except ValueError:  # 192.168.0.1, 12:30:15
            return "number", word
    return _values().get(word)


@cache
def _values() -> dict[str, tuple[str, str | float]]:
    found: dict[str, tuple[str, str | float]] = {}
    small = _NUMBERS.split()[:21]
    found |= {word: ("number", float(value)) for value, word in enumerate(small)}
    tens = _NUMBERS.split()[21:28]
    found |= {word: ("number", 30.0 + 10 * at) for at, word in enumerate(tens)}
    for name, words in _SCALES.items():
        found |= {word: (name, word) for word in words.split()}
    for spellings in _UNITS.split(","):
        unit, *_ = names = spellings.split()
        found |= {word + ending: ("unit", unit) for word in names for ending in ("", "s")}
    return found


def _denied(counts: list[Counter[str]]) -> bool:
    """Whether one text has more negations than the other."""
    one, two = (
        sum(times for word, times in each.items() if _DENIED.search(word)) for each in counts
    )
    return one != two


def _opposed(only: list[set[str]]) -> bool:
    """Whether a word that only one text has is the opposite of one that only the other has."""
    known = opposite_words()
    return any(
        other in known.get(word, ()) or word in _negated(other) or other in _negated(word)
        for word in only[0]
        for other in only[1]
    )


def _negated(word: str) -> list[str]:
    """Opposites that a prefix may form from a word."""
    return [prefix + word for prefix in _PREFIXES] if len(word) > 2 else []


@cache
def _sets() -> dict[str, frozenset[str]]:
    known = {**_WORDS, "number": _NUMBERS}
    found = {kind: frozenset(words.split()) for kind, words in known.items()}
    units = {word for word, (scale, _) in _values().items() if scale == "unit"}
    return {**found, "unit": found["unit"] | units}
