"""Cheap guesses whether a text or a vocabulary is English, used only for a warning."""

import re
import unicodedata
from collections.abc import Callable, Sequence

__all__ = ["is_english_vocabulary", "looks_foreign"]

_READ = 400  # characters, which are enough to tell
_WORD = re.compile(r"[^\W\d_]+")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_ENGLISH = _words(
    "the of and to is that it for was on are with as his they be at this have from or had by not",
    "but what all were when we there can an your which their said if will each about how up out",
    "them then she many some so these would other into has more her two like him see time could",
    "no make than been its who now my over did down only a in i he you do any our",
)
# Frequent function words of other European languages that English does not share.
_FOREIGN = (
    _words(
        "der die das und ist nicht ein eine einen mit von den dem zu auf für sich auch wird sind",
        "le la les de des est et un une dans pour qui que pas sur avec ce sont il elle au aux du",
        "ne plus el los las y es una por con para del se lo como más pero sus al su está muy",
        "gli di che è per non sono della più anche alla nel dei sta",
        "o os e da em um uma não com ao dos na mais foi são às pelo pela",
        "het een en van ik niet dat zijn op te met voor aan er maar om ook sie wie",
        "och att det som på är av för med den till inte har jag og å til ikke jeg af",
        "i w się nie że jest z jak ale po co tak za od ve bir bu için çok ile",
    )
    - _ENGLISH
)


def looks_foreign(text: str) -> bool:
    """Whether a text is in a non-Latin script, or clearly in another European language.

    In a non-Latin script, most letters are not Latin. In another language, the first words include
    two function words of other European languages and none of English, or at least three and more
    than twice as many as of English. Names, codes and very short texts are never foreign.

    >>> looks_foreign("Der Hund schläft auf dem Sofa und ist nicht müde.")
    True
    >>> looks_foreign("The dog sleeps on the sofa."), looks_foreign("Los Angeles")
    (False, False)
    """
    words = _WORD.findall(text[:_READ])
    letters = "".join(words)
    if not letters:
        return False
    if letters.isascii():
        latin = len(letters)
    else:
        latin = sum(c.isascii() or unicodedata.name(c, "").startswith("LATIN") for c in letters)
    if 2 * latin < len(letters):
        return True
    lower = [word.lower() for word in words]
    english = sum(word in _ENGLISH for word in lower)
    foreign = sum(word in _FOREIGN for word in lower)
    return foreign >= (3 if english else 2) and foreign > 2 * english


_ENGLISH_PROBE = "The weather is fine today, and we walk through the park with our children."
_FOREIGN_PROBES = (
    "Das Wetter ist heute schön, und wir gehen mit unseren Kindern durch den Park.",
    "Il fait beau aujourd'hui, et nous marchons dans le parc avec nos enfants.",
    "Hoy hace buen tiempo y paseamos por el parque con nuestros hijos.",
    "Сегодня хорошая погода, и мы вместе гуляем по большому парку.",
)
_MORE = 1.5


def is_english_vocabulary(ids: Callable[[Sequence[str]], list[list[int]]]) -> bool:
    """Whether a vocabulary is English: it splits other languages into many more pieces.

    Args:
        ids: returns the token ids of texts, without special tokens.
    """
    english, *others = map(len, ids([_ENGLISH_PROBE, *_FOREIGN_PROBES]))
    return all(other >= _MORE * english for other in others)
