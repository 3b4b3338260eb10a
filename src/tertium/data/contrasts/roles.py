"""Texts in which two parties change places, and texts in which only the words do.

"The wolf hears the fox." and "The fox hears the wolf." share every word and say different things;
"The fox is heard by the wolf." says the same in another order.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from tertium.data.contrasts import read_lists
from tertium.data.contrasts.verbs import past, progressive, third_person

__all__ = ["RoleSwap", "reordered", "role_swaps"]

_KEPT_APART = 5  # one in five verbs and relations is never learned from
# The same event, told of the first party and of the second.
_VOICES = (
    ("{a} {past} {b}", "{b} was {participle} by {a}"),
    ("{a} has {participle} {b}", "{b} has been {participle} by {a}"),
    ("{a} is {progressive} {b}", "{b} is being {participle} by {a}"),
    ("{a} will {base} {b}", "{b} will be {participle} by {a}"),
    ("{a} often {third} {b}", "{b} is often {participle} by {a}"),
    ("{a} did not {base} {b}", "{b} was not {participle} by {a}"),
    ("it was {a} who {past} {b}", "{b} was {participle} by {a}"),
    ("{a} tried to {base} {b}", "it was {a} who tried to {base} {b}"),
)


@dataclass(frozen=True)
class RoleSwap:
    """A text about two parties, with texts in which they keep or change their places.

    Attributes:
        text: what the first party does or is to the second.
        same: the same in other words or in another order.
        swapped: the text with the parties in each other's places.
        swapped_same: ``same`` with the parties in each other's places.
        learned: whether training data may use these words.
    """

    text: str
    same: str
    swapped: str
    swapped_same: str
    learned: bool


def role_swaps(*, seed: int = 0, parties: int = 4) -> list[RoleSwap]:
    """Actions, relations and journeys, each with some pairs of parties.

    Args:
        seed: random seed for parties and wordings.
        parties: number of pairs of parties for each verb or relation.
    """
    draw = random.Random(seed)
    found = []
    for frames, known, learned in _frames(draw, parties):
        a, b = draw.sample(known, 2)
        text, same = (_told(frame, a, b) for frame in frames)
        swapped, swapped_same = (_told(frame, b, a) for frame in frames)
        found.append(RoleSwap(text, same, swapped, swapped_same, learned))
    return found


def reordered(*, seed: int = 0, parties: int = 12) -> Iterator[tuple[str, str]]:
    """Texts whose words stand in another order and that say the same."""
    draw = random.Random(seed)
    symmetric = read_lists("roles.yaml")["symmetric"]
    for frame in symmetric["frames"]:
        for _ in range(parties):
            a, b = draw.sample(symmetric["parties"], 2)
            yield _told(frame, a, b), _told(frame, b, a)
    for frames, known, learned in _frames(draw, 1):
        if learned:
            sides, frame, tail = draw.sample(known, 2), draw.choice(frames), _tail(draw)
            yield _told(f"{frame} {tail}", *sides), _told(f"{tail} {frame}", *sides)


def _frames(draw: random.Random, times: int) -> Iterator[tuple[tuple[str, str], list[str], bool]]:
    """Two frames that say the same, the parties they are for, and whether to learn from them."""
    lists = read_lists("roles.yaml")
    for group in lists["actions"]:
        for verb in group["verbs"].split(","):
            forms = _forms(verb)
            for _ in range(times):
                tail = draw.choice(("", f" {_tail(draw)}"))
                voices = (f"{each}{tail}" for each in draw.choice(_VOICES))
                one, other = (each.format(a="{a}", b="{b}", **forms) for each in voices)
                yield (one, other), group["parties"], _is_learned(forms["base"])
    for group in lists["relations"]:
        for pair in group["pairs"].split(","):
            first, second = (each.strip() for each in pair.split("/"))
            told = (f"{{a}} {first} {{b}}", f"{{b}} {second} {{a}}")
            for _ in range(times):
                yield told, group["parties"], _is_learned(first)
    for frame in lists["journeys"]["frames"]:
        told = (f"{frame} from {{a}} to {{b}}", f"{frame} to {{b}} from {{a}}")
        for _ in range(times):
            yield told, lists["journeys"]["places"], _is_learned(frame)


def _is_learned(word: str) -> bool:
    return crc32(word.encode()) % _KEPT_APART != 0


def _tail(draw: random.Random) -> str:
    return str(draw.choice(read_lists("roles.yaml")["tails"]))


def _told(frame: str, a: str, b: str) -> str:
    text = frame.format(a=a, b=b)
    return f"{text[0].upper()}{text[1:]}."


def _forms(verb: str) -> dict[str, str]:
    base, *irregular = (each.replace("_", " ") for each in verb.split())
    pasts = irregular or [past(base)] * 2
    return {
        "base": base,
        "past": pasts[0],
        "participle": pasts[1],
        "third": third_person(base),
        "progressive": progressive(base),
    }
