"""Whether an engine gives what torch gives, on texts that never change."""

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from tertium.data.samples import sample_pairs, sample_sentences
from tertium.errors import TertiumError
from tertium.types import TextTriple

__all__ = [
    "Parity",
    "calibration_texts",
    "calibration_triples",
    "check_parity",
    "parity_texts",
    "parity_triples",
    "score_parity",
    "vector_parity",
]

# What an engine must reach. Cosines: the smallest for one that is exact, else the mean.
_EXACT_COSINE, _INT8_COSINE = 0.9999, 0.99
# Largest difference of lengths, as a share of the length: sums and heads need them too.
_EXACT_LENGTH, _INT8_LENGTH = 0.001, 0.1
# Differences of scores, as a share of the scale: the largest for an exact engine, else the mean.
_EXACT_SCORE, _INT8_SCORE = 0.001, 0.02

_ODD = (
    "",
    " ",
    "a",
    "?!",
    "42",
    "2026-11-16, 06:30:15, -0.0001 %",
    "NOBODY MOVE!",
    "the the the the the the the the",
    "Der Zug fährt um fünf nach zwölf.",
    "γάτα",
    "猫が寝ている。",
    "🙂🙃🙂",
    "http://example.org/a?b=c&d=e",
    "one line\nanother line\tand a tab",
    "<b>bold</b> [CLS] and [SEP]",
    "an" * 60,
)
_CONDITIONS = (
    "the time of day",
    "the number of people",
    "what it is about",
    "the place",
    "the mood of the speaker",
)


class Parity(BaseModel):
    """How near an engine comes to torch.

    Attributes:
        measure: ``cosine`` between both vectors of a text, or ``score``, the difference of both
            scores of a triple as a share of the scale.
        items: how many texts or triples were compared.
        worst: the smallest cosine, or the largest difference.
        mean: the mean.
        length: largest difference of a vector's length as a share of it; None for scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    measure: Literal["cosine", "score"]
    items: int
    worst: float
    mean: float
    length: float | None = None

    def __str__(self) -> str:
        if self.measure == "cosine":
            return f"cosine to torch {self.worst:.5f} at worst, {self.mean:.5f} on average"
        return (
            f"scores differ from torch's by {100 * self.worst:.3f} % of the scale at worst, "
            f"{100 * self.mean:.3f} % on average"
        )


def vector_parity(found: np.ndarray, expected: np.ndarray) -> Parity:
    """Cosine and length of each row of ``found`` against torch's row."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    lengths, wanted = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / (lengths * wanted)
        differences = np.abs(lengths / wanted - 1)
    return Parity(
        measure="cosine",
        items=len(a),
        worst=float(cosines.min()),
        mean=float(cosines.mean()),
        length=float(differences.max()),
    )


def score_parity(found: np.ndarray, expected: np.ndarray, scale: tuple[float, float]) -> Parity:
    """Difference of each score from torch's."""
    share = np.abs(found.astype(np.float64) - expected) / (scale[1] - scale[0])
    return Parity(
        measure="score", items=len(share), worst=float(share.max()), mean=float(share.mean())
    )


def check_parity(parity: Parity, *, exact: bool, what: str) -> None:
    """Refuse an engine that is too far from torch, with the figures.

    Args:
        parity: what was measured.
        exact: whether the engine should differ by rounding only.
        what: model and engine, for the message.
    """
    if parity.measure == "cosine":
        figure, least = (parity.worst if exact else parity.mean), _cosine(exact=exact)
        length = _EXACT_LENGTH if exact else _INT8_LENGTH
        assert parity.length is not None
        good = figure >= least and parity.length <= length
        needs = f"{'every' if exact else 'the mean'} cosine must reach {least:g}, and lengths agree"
        needs += f" to {100 * length:g} % (they do to {100 * parity.length:.3g} %)"
    else:
        figure, most = (parity.worst if exact else parity.mean), _score(exact=exact)
        good = figure <= most
        needs = f"{'no' if exact else 'the mean'} difference may exceed {100 * most:g} %"
    if not good:  # what is not a number is not good either
        remedy = "" if exact else ", or keep some layers in float (tertium export --keep-float 4)"
        raise TertiumError(f"{what} is refused: {parity}; {needs}. Use another engine{remedy}.")


def parity_texts() -> list[str]:
    """Sentences, odd texts, and one that is longer than any model reads."""
    sentences = sample_sentences()
    return [*sentences, *_ODD, " ".join(sentences * 3)]


def calibration_texts() -> list[str]:
    """Other texts than those of :func:`parity_texts`, for the ranges of values in a graph."""
    sentences = list(dict.fromkeys(t for p in sample_pairs() for t in (p.sentence1, p.sentence2)))
    odd = ["x", "0.5", "WHAT?", "Le chat dort.", "Кошка спит.", "고양이가 잔다.", "…", "ha " * 20]
    return [*sentences, *odd, " ".join(sentences[:40]), " ".join(reversed(sentences))]


def parity_triples() -> list[TextTriple]:
    """Sentences under conditions, and odd ones."""
    sentences = sample_sentences()
    pairs = zip(sentences[0::2], sentences[1::2], strict=True)
    usual = [(a, b, _CONDITIONS[at % len(_CONDITIONS)]) for at, (a, b) in enumerate(pairs)]
    long = " ".join(sentences)
    odd: list[Any] = [("", "a", "b"), ("a", "", "b"), ("a", "a", "a"), (long, long, long)]
    return [*usual, *odd, *((text, sentences[0], "its length") for text in _ODD)]


def calibration_triples() -> list[TextTriple]:
    """Other triples than those of :func:`parity_triples`."""
    return [
        (pair.sentence1, pair.sentence2, _CONDITIONS[(at + 2) % len(_CONDITIONS)])
        for at, pair in enumerate(sample_pairs())
    ]


def _cosine(*, exact: bool) -> float:
    return _EXACT_COSINE if exact else _INT8_COSINE


def _score(*, exact: bool) -> float:
    return _EXACT_SCORE if exact else _INT8_SCORE
