"""Forms of regular English verbs, of which only the first word is inflected: ``look after``."""

import re

__all__ = ["past", "progressive", "third_person"]

_DOUBLED = re.compile("^[^aeiou]{1,2}[aeiou][^aeiouwxy]$")  # stop, drag


def third_person(base: str) -> str:
    """The third person of the present.

    >>> third_person("carry off"), third_person("push"), third_person("play")
    ('carries off', 'pushes', 'plays')
    """
    verb, rest = _split(base)
    ending = "es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s"
    return (f"{verb[:-1]}ies" if _ends_in_y(verb) else verb + ending) + rest


def past(base: str) -> str:
    """The past, which is also the participle.

    >>> past("stop"), past("carry off"), past("hire"), past("visit")
    ('stopped', 'carried off', 'hired', 'visited')
    """
    verb, rest = _split(base)
    if _ends_in_y(verb):
        return f"{verb[:-1]}ied{rest}"
    return f"{_doubled(verb).removesuffix('e')}ed{rest}"


def progressive(base: str) -> str:
    """The progressive form.

    >>> progressive("stop"), progressive("see"), progressive("hire out")
    ('stopping', 'seeing', 'hiring out')
    """
    verb, rest = _split(base)
    stem = verb if verb.endswith("ee") else _doubled(verb).removesuffix("e")
    return f"{stem}ing{rest}"


def _split(base: str) -> tuple[str, str]:
    verb, space, rest = base.partition(" ")
    return verb, space + rest


def _ends_in_y(verb: str) -> bool:
    return re.search("[^aeiou]y$", verb) is not None


def _doubled(verb: str) -> str:
    return verb + verb[-1] if _DOUBLED.search(verb) else verb
